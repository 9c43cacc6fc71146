// @ts-check
// The settings of a load script, read from its environment and checked at once. Pure: `npm run load` reads this too.

import { MAKERS } from '../../payloads.js'
import { defaultsOf } from './defaults.js'

export const EVENTS_PATH = '/api/v1/events'
const ONE_HOUR_MS = 3_600_000
/** Events older than 72 hours are refused, and bodies are prepared once, with times of up to an hour before. */
export const MAX_DURATION_MS = 70 * ONE_HOUR_MS
/** k6 takes no shorter scenario. */
const MIN_DURATION_MS = 1000
const UNIT_MS = /** @type {Readonly<Record<string, number>>} */ ({ ms: 1, s: 1000, m: 60_000, h: ONE_HOUR_MS })

/** What every script understands; scripts name their own beside these. */
export const COMMON_SETTINGS = /** @type {Readonly<Record<string, string>>} */ ({
  BASE_URL: 'address of the service, or several with commas; unset: a node is started here',
  ADMIN_URL: 'address of the admin port (several with commas), for memory, CPU and the node’s own counters',
  APP_KEY: 'the app that sends; needed with BASE_URL',
  RATE: 'requests a second',
  DURATION: 'how long, such as 90s, 10m, 2h',
  EVENTS: 'events in a body, 0 to 100',
  BODY: 'varied (as SDKs of many makes send), uniform (one layout) or large (4.9 KB an event)',
  BODIES: 'bodies that are prepared and sent in turn; fewer where they would be more than 16 MiB',
  KEYED: 'share of requests that carry an Idempotency-Key, 0 to 1',
  SEED: 'one seed gives the same bodies',
  VUS: 'most requests under way at once',
  LATENCY_OBJECTIVE_MS: 'p99 must stay below; off: it is shown and not judged',
  AVAILABILITY_OBJECTIVE: 'least share of requests that are answered, and not with 5xx',
  PIN: '1: a local node has the first core to itself, and k6 the others (spike 1, else 0)',
  OUT: 'folder of the report (load/reports/NAME-TIME)',
})

const NOT_SHOWN = new Set(['APP_KEY', 'OUT', 'PACKS'])

/** @typedef {Readonly<Record<string, string | undefined>>} Environment */
/** @typedef {import('./defaults.js').Defaults} Defaults */

/** Milliseconds of `90s`, `1h30m`, `250ms`; NaN where it is none. @param {string} text */
export function parseDurationMs(text) {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/gy)]
  if (parts.length === 0 || parts.reduce((length, [part]) => length + part.length, 0) !== text.length) return Number.NaN
  return parts.reduce((sumMs, [, count, unit]) => sumMs + Number(count) * UNIT_MS[unit], 0)
}

/** Reads one setting at a time, and remembers what was wrong. @param {Environment} environment @param {Defaults} defaults */
function createReader(environment, defaults) {
  /** @type {string[]} */
  const faults = []
  /** @type {Map<string, string>} */
  const read = new Map()
  const raw = (/** @type {string} */ name) => {
    const given = environment[name]
    const isGiven = given !== undefined && given !== ''
    const text = String(isGiven ? given : (defaults[name] ?? '')).trim()
    read.set(name, text)
    return text
  }
  const number = (/** @type {string} */ name, /** @type {number} */ least, /** @type {number} */ most) => {
    const value = raw(name) === '' ? Number.NaN : Number(raw(name))
    if (!(value >= least && value <= most))
      faults.push(`${name}=${raw(name)}: must be a number from ${least} to ${most}`)
    return value
  }
  const whole = (/** @type {string} */ name, /** @type {number} */ least, /** @type {number} */ most) => {
    const value = number(name, least, most)
    if (value >= least && value <= most && !Number.isInteger(value))
      faults.push(`${name}=${value}: must be a whole number`)
    return value
  }
  const durationMs = (/** @type {string} */ name, leastMs = MIN_DURATION_MS, mostMs = MAX_DURATION_MS) => {
    const value = parseDurationMs(raw(name))
    if (!(value >= leastMs && value <= mostMs)) {
      faults.push(`${name}=${raw(name)}: must be a time such as 90s, 10m, 2h, from ${leastMs} ms to ${mostMs} ms`)
    }
    return value
  }
  const addresses = (/** @type {string} */ name) => {
    const list = raw(name)
      .split(',')
      .map((text) => text.trim().replace(/\/+$/, ''))
      .filter((text) => text !== '')
    const bad = list.filter((text) => !/^https?:\/\/[^/\s]+/.test(text))
    if (bad.length > 0) faults.push(`${name}=${bad.join(',')}: must begin with http:// or https://`)
    return list
  }
  const list = (/** @type {string} */ name, /** @type {number} */ least, /** @type {number} */ most) => {
    const values = raw(name).split(',').map(Number)
    if (!values.every((value) => Number.isInteger(value) && value >= least && value <= most)) {
      faults.push(`${name}=${raw(name)}: must be whole numbers from ${least} to ${most} with commas between them`)
    }
    return values
  }
  return { faults, read, raw, number, whole, durationMs, addresses, list }
}

/**
 * @param {Environment} environment
 * @param {{ script: string, defaults?: Defaults }} options `defaults`: instead of those that the script has in defaults.js
 */
export function readSettings(environment, { script, defaults = {} }) {
  const reader = createReader(environment, { ...defaultsOf(script), ...defaults })
  const { faults, read, raw, number, whole, durationMs, addresses, list } = reader
  const baseUrls = addresses('BASE_URL')
  if (baseUrls.length === 0) faults.push('BASE_URL: where is the service? `npm run load` starts one by itself')
  const appKey = raw('APP_KEY')
  if (!appKey.startsWith('ak_')) faults.push('APP_KEY: the key of an app that the service knows, beginning with ak_')
  const body = raw('BODY')
  if (!Object.hasOwn(MAKERS, body)) faults.push(`BODY=${body}: must be one of ${Object.keys(MAKERS).join(', ')}`)
  const settings = {
    script,
    baseUrls,
    adminUrls: addresses('ADMIN_URL'),
    appKey,
    /** A node of this run's own: no one else sends to it. */
    isLocal: raw('LOCAL_NODE') === '1',
    rate: number('RATE', 0.1, 1_000_000),
    durationMs: durationMs('DURATION'),
    events: whole('EVENTS', 0, 100),
    body,
    bodies: whole('BODIES', 1, 100_000),
    keyed: number('KEYED', 0, 1),
    seed: whole('SEED', 0, 2 ** 32 - 1),
    vus: whole('VUS', 1, 100_000),
    latencyObjectiveMs: raw('LATENCY_OBJECTIVE_MS') === 'off' ? null : number('LATENCY_OBJECTIVE_MS', 0.001, 3_600_000),
    availabilityObjective: number('AVAILABILITY_OBJECTIVE', 0, 1),
    out: raw('OUT'),
  }
  return Object.freeze({
    ...settings,
    number,
    whole,
    list,
    text: raw,
    readDurationMs: durationMs,
    /** What the run can be repeated with: no key, and no place of this machine's. */
    shown: () => Object.fromEntries([...read].filter(([name]) => !NOT_SHOWN.has(name))),
    isSound: () => faults.length === 0,
    check: () => check(script, faults),
  })
}

/** @typedef {ReturnType<typeof readSettings>} Settings */

/** Every mistake at once. @param {string} script @param {readonly string[]} faults */
function check(script, faults) {
  if (faults.length > 0) throw new Error(`the settings of ${script} do not do:\n  ${faults.join('\n  ')}`)
}
