// Numbers, sizes, spans and times as text. Every number has its unit.

export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

const COUNT = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 })
const FINE = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 })

/** 12345678 -> 12,345,678 */
export function count(value: number): string {
  return COUNT.format(value)
}

/** Small ones keep one decimal. */
export function rate(value: number): string {
  return value < 10 ? FINE.format(value) : COUNT.format(value)
}

/** For example 512 B, 1.5 MiB, 10 GiB. */
export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']
  const unit = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(value) / 10))
  const scaled = value / 1024 ** unit
  return `${scaled < 100 ? FINE.format(scaled) : COUNT.format(scaled)} ${units[unit]}`
}

/** Number and unit of a span, apart, for those that set them apart. */
export function spanParts(seconds: number): readonly [string, string] {
  if (seconds < 0.9995) return [rate(seconds * 1000), 'ms']
  if (seconds < 120) return [rate(seconds), 's']
  if (seconds < 5400) return [COUNT.format(seconds / 60), 'min']
  if (seconds < 4 * 86_400) return [rate(seconds / 3600), 'h']
  return [COUNT.format(seconds / 86_400), 'days']
}

/** For example 6.1 ms, 1.4 s, 12 min, 51 h, 9 days. */
export function span(seconds: number): string {
  return spanParts(seconds).join(' ')
}

const UTC_PARTS = { time: [11, 19], ms: [11, 23], date: [0, 19] } as const

/** For example 14:02:31, 14:02:31.120 or 2026-11-20 14:02:31. Empty where it is no time, whatever a client sent for one. */
export function utc(at: string | number, as: keyof typeof UTC_PARTS): string {
  const date = new Date(at)
  const text = Number.isNaN(date.getTime()) ? '' : date.toISOString().replace('T', ' ')
  return text.slice(...UTC_PARTS[as])
}

/** The reader's own time, for a hover. */
export function localTime(timeMs: number): string {
  return new Date(timeMs).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
}

/** As it was sold, and what may be gone over it: 100,000 +10%. `limit` is the enforced one. */
export function limitText(limit: number, tolerancePercent = 0): string {
  const sold = Math.ceil((limit * 100) / (100 + tolerancePercent))
  return `${count(sold)}${tolerancePercent === 0 ? '' : ` +${tolerancePercent}%`}`
}

export function percent(share: number): string {
  return `${share > 0 && share < 0.01 ? '<1' : COUNT.format(share * 100)}%`
}

/** The plural of a regular word. */
export function many(value: number, word: string): string {
  return `${count(value)} ${word}${value === 1 ? '' : 's'}`
}
