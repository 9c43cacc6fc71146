// @ts-check
// The end of a run of faults: reads the stream, the counters and the logs, and holds them against what was sent.

import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { readMetrics } from '../../test/support/metrics.js'
import { cameTrue } from '../shared/until.js'
import { checkWindows, counterFault, eventsCharged, overlap, StreamCheck } from './checks.js'
import { isRedisFault, isStart } from './faults.js'
import { lastFailure } from './report.js'
import { ask, sumsFault } from './watch.js'

/** The audit makes counters exact within two minutes, and some more for a machine that is busy. */
const AUDIT_MS = 130_000
const POLL_MS = 2000
/** The service is back within 2 s of NATS's return; the rest is for a machine that is busy. */
const RECOVERY_MS = 5000
/** What was under way at a fault may still be logged so much later. */
const LOG_TAIL_MS = 10_000
const DAY_MS = 86_400_000

/** @typedef {import('./checks.js').Violations} Violations */
/** @typedef {import('./faults.js').EpisodeEntry} EpisodeEntry */
/** @typedef {import('./ground.js').LimitedApp} LimitedApp */
/** @typedef {import('./load.js').Load} Load */
/** @typedef {import('./servers.js').LogLine} LogLine */
/** @typedef {Awaited<ReturnType<typeof import('./ground.js').prepareGround>>} Ground */

/**
 * @param {{ ground: Ground, apps: readonly LimitedApp[], load: Load, log: readonly EpisodeEntry[],
 *   logLines: readonly LogLine[], violations: Violations, isSpooled: boolean }} options
 *   `isSpooled`: of 503s there is a rule of its own (outage.js)
 * @returns {Promise<{ figures: [string, string | number][], notes: string[] }>}
 */
export async function judge({ ground, apps, load, log, logLines, violations, isSpooled }) {
  const { batchIdOf } = await import(pathToFileURL(join(ground.dist, 'contract', 'ids.js')).href)
  const stream = new StreamCheck({ batches: load.batches, apps, batchIdOf, violations })
  const { messages, records } = await ground.readQueue((record) => stream.take(record))
  const { unacknowledged } = stream.end()

  const outages = redisOutages(log, logLines)
  const starts = spansOf(log, isStart).filter((start) => outages.some((away) => overlap(away, start)))
  const notes = []
  /** @type {[string, string | number][]} */
  const figures = [
    ['stream', `${records} records in ${messages} messages`],
    ['stored, no 202 seen', `${unacknowledged.length} batches with a key, ${stream.strays} without`],
  ]
  /** @type {{ app: LimitedApp, charged: { least: number, most: number } }[]} */
  const charges = []
  for (const app of apps) {
    const stored = stream.stored.filter(({ appId }) => appId === app.appId)
    const { limits } = app
    const { notes: found, fullestMinute } = checkWindows({ app, limits, stored, outages, starts, violations })
    notes.push(...found)
    const charged = eventsCharged(stored)
    charges.push({ app, charged })
    figures.push([`  ${app.appId}`, describeApp(app, charged, fullestMinute)])
  }
  const startedAtMs = load.batches[0]?.startedAtMs ?? Date.now()
  const counting = { ground, charges, startedAtMs, violations }
  const settleMs = await checkCounters({ ...counting, when: 'with the nodes running' })
  figures.push(['counters right after', `${(settleMs / 1000).toFixed(0)} s`])
  await checkNodes(ground, violations)
  await checkCounters({ ...counting, when: 'with the nodes gone' })
  const failed = isSpooled ? load.failedTries.filter(({ what }) => !what.startsWith('503')) : load.failedTries
  checkAnswers({ load, failed, log, outages, violations })
  notes.push(...checkLogs(log, logLines, violations))
  return { figures, notes }
}

/** @param {LimitedApp} app @param {{ least: number, most: number }} charged @param {number} fullestMinute */
function describeApp({ limits: { perMinute, perDay, perMonth } }, { least, most }, fullestMinute) {
  const limits = [`minute ${perMinute}`, ...(perDay === null ? [] : [`day ${perDay}`]), `month ${perMonth}`]
  const events = least === most ? String(least) : `${least} to ${most}`
  return `${events} events, fullest minute ${fullestMinute} (limits: ${limits.join(', ')})`
}

/** Of faults of these kinds. @param {readonly EpisodeEntry[]} log @param {(kind: string) => boolean} isOne */
function spansOf(log, isOne) {
  const entries = log.flatMap((episode) => episode.entries).filter(({ kind }) => isOne(kind))
  return entries.map(({ startedMs, healedMs }) => ({ startMs: startedMs, endMs: healedMs }))
}

/** Redis is away for the service from a fault, or from when a node says so, until it says that it is back. @param {readonly EpisodeEntry[]} log @param {readonly LogLine[]} logLines */
function redisOutages(log, logLines) {
  const spans = spansOf(log, isRedisFault)
  /** @type {Map<string, number>} */
  const awaySince = new Map()
  for (const { name, atMs, text } of logLines) {
    if (text.includes('Redis is away')) awaySince.set(name, atMs)
    const startMs = awaySince.get(name)
    if (!text.includes('Redis is back') || startMs === undefined) continue
    spans.push({ startMs, endMs: atMs })
    awaySince.delete(name)
  }
  return spans
}

/**
 * Waits until every counter is right, and gives how long that took.
 * @param {{ ground: Ground, charges: readonly { app: LimitedApp, charged: { least: number, most: number } }[],
 *   when: string, startedAtMs: number, violations: Violations }} options
 */
async function checkCounters({ ground, charges, when, startedAtMs, violations }) {
  // A day that turned during the run has a counter that began anew.
  const isOneDay = Math.floor(startedAtMs / DAY_MS) === Math.floor(Date.now() / DAY_MS)
  const faults = async () => {
    /** @type {(string | null)[]} */
    const found = []
    for (const { app, charged } of charges) {
      const { day, month } = await ground.counters(app)
      if (isOneDay) found.push(counterFault({ appId: app.appId, window: 'day', used: day, charged }))
      found.push(counterFault({ appId: app.appId, window: 'month', used: month, charged }))
    }
    return found.filter((fault) => fault !== null)
  }
  const beganMs = Date.now()
  /** @type {string[]} */
  let found = []
  const areRight = async () => {
    found = await faults()
    return found.length === 0
  }
  await cameTrue(areRight, AUDIT_MS, POLL_MS)
  for (const fault of found) violations.add(`counter ${when}`, fault)
  return Date.now() - beganMs
}

/** Every node is well, and ends well. @param {Ground} ground @param {Violations} violations */
async function checkNodes({ nodes }, violations) {
  for (const node of nodes) {
    const ready = await ask(node, '/readyz?verbose')
    if (ready?.status !== 200) violations.add('not ready at the end', `${node.name}: ${ready?.text}`)
    const page = (await ask(node, '/metrics'))?.text ?? ''
    const metrics = readMetrics(page)
    const fault = sumsFault(page)
    if (fault !== null) violations.add('metrics do not add up', `${node.name}: ${fault}`)
    const states = { sluice_requests_in_flight: 0, sluice_redis_up: 1, sluice_nats_up: 1, sluice_degraded: 0 }
    for (const [name, wanted] of Object.entries(states)) {
      const value = metrics.get(name) ?? 0
      if (value !== wanted) violations.add('not healed', `${node.name}: ${name} is ${value}; ${ready?.text}`)
    }
  }
  for (const node of nodes) {
    const exit = await node.terminate()
    if (exit?.code !== 0)
      violations.add('no clean end', `${node.name}: ${exit === null ? 'late' : (exit.code ?? exit.signal)}`)
  }
}

/**
 * @param {{ load: Load, failed: Load['failedTries'], log: readonly EpisodeEntry[], outages: readonly { startMs: number, endMs: number }[],
 *   violations: Violations }} options
 */
function checkAnswers({ load, failed, log, outages, violations }) {
  for (const text of load.wrongAnswers) violations.add('wrong answer', text)
  for (const { atMs, batch } of load.refusedReplays) {
    const isExplained = outages.some(({ startMs, endMs }) => startMs < atMs && atMs < endMs + LOG_TAIL_MS)
    if (!isExplained) violations.add('a replay was refused', batch.history)
  }
  for (const { entries, startedMs, healedMs, readyMs, endedMs } of log) {
    const kinds = entries.map(({ kind }) => kind)
    const wellAtMs = Math.max(healedMs, readyMs)
    const last = lastFailure(failed, wellAtMs, endedMs)
    if (last !== null && last.startedAtMs - wellAtMs > RECOVERY_MS) {
      const lateMs = last.startedAtMs - wellAtMs
      violations.add(
        'failing long after a fault',
        `${kinds.join(' + ')}: ${last.what} of ${last.node} after ${lateMs} ms`,
      )
    }
    if (!kinds.every(isRedisFault)) continue
    const meanwhile = failed.filter(({ startedAtMs }) => startedAtMs > startedMs && startedAtMs < healedMs)
    for (const { knewApp, batch } of meanwhile) {
      if (knewApp) violations.add('failed while only Redis was away', batch.history)
    }
  }
}

/** Error lines outside any fault are wrong, and fatal ones everywhere. @param {readonly EpisodeEntry[]} log @param {readonly LogLine[]} logLines @param {Violations} violations */
function checkLogs(log, logLines, violations) {
  /** @type {Map<string, number>} */
  const kinds = new Map()
  for (const { name, atMs, level, text } of logLines) {
    const isInFault = log.some(({ startedMs, healedMs }) => startedMs <= atMs && atMs < healedMs + LOG_TAIL_MS)
    if (level === 'fatal' || (level === 'error' && !isInFault)) violations.add(`logged as ${level}`, `${name}: ${text}`)
    const kind = `${level}: ${messageOf(text)}`
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
  }
  return [...kinds].map(([kind, count]) => `logged ${count} times: ${kind}`)
}

/** The sentence of a line, with its numbers left out. @param {string} text */
function messageOf(text) {
  try {
    const { msg = '', problem = '' } = JSON.parse(text)
    return `${msg} ${problem}`
      .trim()
      .replace(/\d+(\.\d+)?/g, 'N')
      .slice(0, 160)
  } catch {
    return text.slice(0, 160)
  }
}
