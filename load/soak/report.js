// @ts-check
// What a soak found, as a small table.

import { FAULTS } from './faults.js'

/** @typedef {import('./faults.js').EpisodeEntry} EpisodeEntry */
/** @typedef {import('./faults.js').FaultEntry} FaultEntry */

/** @param {readonly [string, string | number][]} rows */
function aligned(rows) {
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}\n`).join('')
}

/** How long after the last thing healed a try still failed, by kind of fault, single faults only. @param {readonly EpisodeEntry[]} log @param {readonly { startedAtMs: number }[]} failedTries */
export function recoveries(log, failedTries) {
  /** @type {Map<string, { times: number, alone: number, worstMs: number }>} */
  const byKind = new Map(FAULTS.map((kind) => [kind, { times: 0, alone: 0, worstMs: 0 }]))
  for (const { entries, healedMs, endedMs } of log) {
    for (const { kind } of entries) {
      const figures = /** @type {{ times: number, alone: number, worstMs: number }} */ (byKind.get(kind))
      figures.times += 1
      if (entries.length > 1) continue
      figures.alone += 1
      figures.worstMs = Math.max(figures.worstMs, lastFailureMs(failedTries, healedMs, endedMs))
    }
  }
  return byKind
}

/** How long after it healed a try was begun that failed. @param {readonly { startedAtMs: number }[]} failedTries @param {number} healedMs @param {number} endedMs */
export function lastFailureMs(failedTries, healedMs, endedMs) {
  let lastMs = healedMs
  for (const { startedAtMs } of failedTries) {
    if (startedAtMs > lastMs && startedAtMs < endedMs) lastMs = startedAtMs
  }
  return lastMs - healedMs
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
  const faultRows = faults.map(([kind, { times, alone, worstMs }]) => {
    const recovery =
      alone === 0 ? 'never alone' : `alone ${alone}, last failure ${(worstMs / 1000).toFixed(1)} s after it healed`
    return /** @type {[string, string]} */ ([kind, `${times} (${recovery})`])
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
