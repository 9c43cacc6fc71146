// Numbers in a readable form, for terminals and the log.

/** 12345678 -> 12,345,678 */
export function formatCount(count: number): string {
  return count.toLocaleString('en-US')
}

/** For example 512 B, 1.5 MiB, 10 GiB. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  const text = unit === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, '')
  return `${text} ${units[unit]}`
}

/** For example 45 s, 12 min, 3.5 h, 72 h, 12 days. */
export function formatSpan(ms: number): string {
  const units = [
    ['days', 86_400_000, 4],
    ['h', 3_600_000, 1],
    ['min', 60_000, 1],
  ] as const
  for (const [name, unitMs, least] of units) {
    if (ms >= least * unitMs) return `${(ms / unitMs).toFixed(1).replace(/\.0$/, '')} ${name}`
  }
  return `${Math.floor(ms / 1000)} s`
}
