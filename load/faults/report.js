// @ts-check
// What a run of faults found, as a small table.

import { FAULTS, OUTAGE } from './faults.js'

/** @typedef {import('./faults.js').EpisodeEntry} EpisodeEntry */
/** @typedef {Pick<import('./load.js').FailedTry, 'startedAtMs' | 'endedAtMs' | 'node' | 'what'>} FailedTry */
/** @typedef {{ times: number, alone: number, worstMs: number, what: string }} Recovery */

/** @param {readonly [string, string | number][]} rows */
function aligned(rows) {
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}\n`).join('')
}

/**
 * How long after the last thing healed a try still failed, by kind of fault, single faults only.
 * @param {readonly EpisodeEntry[]} log @param {readonly FailedTry[]} failedTries
 */
export function recoveries(log, failedTries) {
  /** @type {Map<string, Recovery>} */
  const byKind = new Map([...FAULTS, OUTAGE].map((kind) => [kind, { times: 0, alone: 0, worstMs: 0, what: '' }]))
  for (const { entries, healedMs, endedMs } of log) {
    for (const { kind } of entries) {
      const figures = /** @type {Recovery} */ (byKind.get(kind))
      figures.times += 1
      if (entries.length > 1) continue
      figures.alone += 1
      const last = lastFailure(failedTries, healedMs, endedMs)
      if (last === null || last.startedAtMs - healedMs <= figures.worstMs) continue
      figures.worstMs = last.startedAtMs - healedMs
      figures.what = `${last.what} of ${last.node}`
    }
  }
  return byKind
}

/**
 * The last try that failed within a span.
 * @template {Pick<FailedTry, 'startedAtMs' | 'endedAtMs'>} T
 * @param {readonly T[]} failedTries @param {number} fromMs @param {number} untilMs @returns {T | null}
 */
export function lastFailure(failedTries, fromMs, untilMs) {
  let last = null
  for (const each of failedTries) {
    if (each.startedAtMs > (last?.startedAtMs ?? fromMs) && each.endedAtMs < untilMs) last = each
  }
  return last
}

/** @param {{ log: readonly EpisodeEntry[], load: import('./load.js').Load, figures: readonly [string, string | number][] }} options */
export function report({ log, load, figures }) {
  const { counts, batches } = load
  const outcomes = new Map()
  for (const { outcome } of batches) outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
  const rows = /** @type {[string, string | number][]} */ ([
    ...figures,
    ['batches', `${batches.length} (${[...outcomes].map(([outcome, count]) => `${count} ${outcome}`).join(', ')})`],
    ['requests', `${counts.tries}, of them ${counts.retries} retries`],
    ['202', `${counts.accepted}, of them ${counts.replays} replays`],
    ['503, 429', `${counts.overloaded}, ${counts.limited}`],
    ['no answer', `${counts.timeouts} timeouts, ${counts.broken} broken connections`],
    ['left out', `${load.leftOut} batches, too many under way`],
  ])
  const faults = [...recoveries(log, load.failedTries)].filter(([, { times }]) => times > 0)
  const faultRows = faults.map(([kind, { times, alone, worstMs, what }]) => {
    const last =
      what === ''
        ? 'no failure after it healed'
        : `last failure ${(worstMs / 1000).toFixed(1)} s after it healed: ${what}`
    return /** @type {[string, string]} */ ([
      kind,
      `${times} (${alone === 0 ? 'never alone' : `alone ${alone}, ${last}`})`,
    ])
  })
  return `${aligned(rows)}\n  faults\n${aligned(faultRows)}`
}

/** @param {readonly EpisodeEntry[]} log */
export function faultLog(log) {
  const time = (/** @type {number} */ timeMs) => new Date(timeMs).toISOString().slice(11, 23)
  return log
    .flatMap(({ entries }) => entries)
    .map(({ kind, target, startedMs, healedMs }) => `  ${time(startedMs)} to ${time(healedMs)} ${kind} ${target}\n`)
    .join('')
}
