// Numbers, sizes, spans and times as text. Every number has its unit.

export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

const COUNT = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 })
const FINE = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 })
const SHORT = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 3 })

/** 1234567 -> 1,234,567; from eight digits on 41.6 M. */
export function count(value: number): string {
  if (value < 10_000_000) return COUNT.format(value)
  return value < 1e9 ? `${SHORT.format(value / 1e6)} M` : `${SHORT.format(value / 1e9)} G`
}

/** Of an axis: 240k. */
export function short(value: number): string {
  if (value >= 1e6) return `${SHORT.format(value / 1e6)}M`
  return value >= 10_000 ? `${SHORT.format(value / 1000)}k` : SHORT.format(value)
}

/** Small ones keep one decimal. */
export function rate(value: number): string {
  return value < 100 ? FINE.format(value) : count(value)
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
  if (seconds < 10) return [FINE.format(seconds), 's']
  if (seconds < 100) return [COUNT.format(seconds), 's']
  if (seconds < 5400) return [COUNT.format(seconds / 60), 'min']
  if (seconds < 4 * 86_400) return [COUNT.format(seconds / 3600), 'h']
  return [COUNT.format(seconds / 86_400), 'days']
}

/** For example 6.1 ms, 1.4 s, 12 min, 51 h, 9 days. */
export function span(seconds: number): string {
  return spanParts(seconds).join(' ')
}

const UTC_PARTS = { minute: [11, 16], time: [11, 19], ms: [11, 23], date: [0, 19], day: [0, 10] } as const

/** For example 14:02:31, 14:02:31.120 or 2026-11-20 14:02:31. Empty where it is no time, whatever a client sent for one. */
export function utc(at: string | number, as: keyof typeof UTC_PARTS): string {
  const date = new Date(at)
  const text = Number.isNaN(date.getTime()) ? '' : date.toISOString().replace('T', ' ')
  return text.slice(...UTC_PARTS[as])
}

const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })

/** For example 1 Dec. */
export function day(at: string | number): string {
  return DAY.format(new Date(at))
}

/** `now`, `3 s`, `12 min`, `2 h`, then the date. */
export function age(at: string, nowMs: number): string {
  const seconds = (nowMs - Date.parse(at)) / 1000
  if (seconds < 1) return 'now'
  return seconds < 86_400 ? span(Math.floor(seconds)) : day(at)
}

/** UTC and the reader's own time, for a hover. */
export function exactly(at: string): string {
  const date = new Date(at)
  if (Number.isNaN(date.getTime())) return ''
  const local = date.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
  return `${utc(at, 'date')}${utc(at, 'ms').slice(8)} UTC, ${local} local time`
}

/** As it was sold, and what may be gone over it: 100,000 + 10%. `limit` is the enforced one. */
export function limitText(limit: number, tolerancePercent = 0): string {
  const sold = Math.ceil((limit * 100) / (100 + tolerancePercent))
  return `${count(sold)}${tolerancePercent === 0 ? '' : ` + ${tolerancePercent}%`}`
}

export function percent(share: number): string {
  return `${share > 0 && share < 0.01 ? '<1' : COUNT.format(share * 100)}%`
}

export function capital(text: string): string {
  return text === '' ? '' : text[0].toUpperCase() + text.slice(1)
}

/** The plural of a regular word. */
export function many(value: number, word: string): string {
  return `${count(value)} ${word}${value === 1 ? '' : 's'}`
}

/** A number that is the same for the same text: for the hue of an app and the address of a cause. */
export function hashOf(text: string): number {
  let hash = 2_166_136_261
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 16_777_619)
  return hash >>> 0
}
