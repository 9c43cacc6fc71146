// The memory limiter's part of a snapshot, and the check of one that is read back.

/** Usage of the windows that hold `newestMs`. */
export interface LimiterDump {
  readonly version: 1
  /** The newest time that the limiter had been given. */
  readonly newestMs: number
  readonly apps: readonly DumpedApp[]
}

export interface DumpedApp {
  readonly appId: string
  readonly minuteUsed: number
  readonly dayUsed: number
  readonly cycles: readonly DumpedCycle[]
  /** Start and use of each day before that of the dump. Absent in a dump of 0.3, as is `newestMs`. */
  readonly days?: readonly (readonly [startMs: number, used: number])[]
  /** What `days` has of a sum of 0.3, whose days are not known. */
  readonly guess?: readonly [startMs: number, used: number]
  /** The newest time at which events were taken; null: none is known. */
  readonly newestMs?: number | null
}

export interface DumpedCycle {
  readonly startMs: number
  readonly endMs: number
  readonly used: number
}

export const LIMITER_DUMP_VERSION = 1

/** Throws if the value is not a dump. */
export function readLimiterDump(value: unknown): LimiterDump {
  if (!isLimiterDump(value)) throw new Error(`not a dump of the limits of version ${LIMITER_DUMP_VERSION}`)
  return value
}

function isLimiterDump(value: unknown): value is LimiterDump {
  if (!isObject(value) || value['version'] !== LIMITER_DUMP_VERSION || !isCount(value['newestMs'])) return false
  return Array.isArray(value['apps']) && value['apps'].every(isDumpedApp)
}

function isDumpedApp(value: unknown): boolean {
  if (!isObject(value) || typeof value['appId'] !== 'string') return false
  if (!isCount(value['minuteUsed']) || !isCount(value['dayUsed'])) return false
  const { newestMs = null, days = [], guess = null } = value
  if (guess !== null && !isDumpedDay(guess)) return false
  if (newestMs !== null && !Number.isSafeInteger(newestMs)) return false
  if (!Array.isArray(days) || !days.every(isDumpedDay)) return false
  return Array.isArray(value['cycles']) && value['cycles'].every(isDumpedCycle)
}

function isDumpedDay(value: unknown): boolean {
  return Array.isArray(value) && value.length === 2 && Number.isSafeInteger(value[0]) && isCount(value[1])
}

function isDumpedCycle(value: unknown): boolean {
  return (
    isObject(value) &&
    Number.isSafeInteger(value['startMs']) &&
    Number.isSafeInteger(value['endMs']) &&
    isCount(value['used'])
  )
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
