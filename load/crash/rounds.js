// @ts-check
// Rounds of kill -9 on one ground, under a load that goes on, and their judgement: every batch that was answered 202 is in the
// queue, whole and once.

import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { counterFault, eventsCharged, StreamCheck } from '../faults/checks.js'
import { NO_LIMITS } from '../faults/ground.js'
import { bodyOf, Load } from '../faults/load.js'
import { untilReady } from '../faults/watch.js'
import { largeBody, uniformBody, variedBody } from '../payloads.js'
import { Connections } from '../shared/send.js'
import { cameTrue } from '../shared/until.js'

/** A node is killed at any moment from when all were ready on. */
const LONGEST_LIFE_MS = 1500
/** With Redis and NATS: how often one of them is restarted while the load goes on. */
const RESTART_SHARE = 0.2
const READY_TIMEOUT_MS = 30_000
/** New batches; while so many wait for their answers, none begins. */
const PER_SECOND = 500
const MAX_UNDER_WAY = 500
/** What was accepted is sent again after this long at most, most of it to another life of its node. */
const LONGEST_REPLAY_PAUSE_MS = 5000
/** At the end every batch with a key must be accepted within this time, restarts of the stores included. */
const SETTLE_MS = 60_000
/** Events of the bodies that are sent in turn: a few are large, 5 to 490 KB, and most are not. */
const UNIFORM = [1, 1, 2, 3, 10, 100]
const VARIED = [1, 2, 5, 20, 60]
const LARGE = [1, 15, 60, 100]
const USUAL_FOR_LARGE = 6

/** @typedef {Awaited<ReturnType<typeof import('../faults/ground.js').prepareGround>>} Ground */
/** @typedef {import('../faults/ground.js').LimitedApp} LimitedApp */
/** @typedef {import('../faults/checks.js').Violations} Violations */
/** @typedef {import('../payloads.js').Rng} Rng */
/** @typedef {{ rounds: number, accepted: number, sent: number, records: number }} Done */

/** One for batches with a key, and one for batches without. @type {readonly LimitedApp[]} */
export const APPS = [app('keyed', 0.6, true), app('plain', 0.4, false)]

/** @param {string} appId @param {number} share @param {boolean} keyed @returns {LimitedApp} */
function app(appId, share, keyed) {
  return { appId, appKey: `ak_crash_${appId}`, share, keyed, limits: NO_LIMITS, plan: '5m', subscription: 'active' }
}

/** @param {Rng} rng @param {Pick<LimitedApp, 'appKey'>} app */
function makeBodies(rng, { appKey }) {
  const made = (/** @type {typeof uniformBody} */ make, /** @type {number[]} */ counts) =>
    counts.map((events) => bodyOf(make({ rng, appKey, events, nowMs: Date.now() }), events))
  const usual = [...made(uniformBody, UNIFORM), ...made(variedBody, VARIED)]
  return [...Array.from({ length: USUAL_FOR_LARGE }, () => usual).flat(), ...made(largeBody, LARGE)]
}

/**
 * @param {Ground} ground
 * @param {{ rounds: number, rng: Rng, violations: Violations, done: Done }} options adds to `done`
 */
export async function runRounds(ground, { rounds, rng, violations, done }) {
  const { nodes } = ground
  const connections = new Connections()
  const most = { maxUnderWay: MAX_UNDER_WAY, longestReplayPauseMs: LONGEST_REPLAY_PAUSE_MS }
  const how = { perSecond: PER_SECOND, seed: rng() * 2 ** 32, ...most }
  const load = new Load({ apps: APPS, targets: nodes, connections, makeBodies, ...how })
  try {
    await ready(ground)
    load.start()
    for (let round = 0; round < rounds; round++) await killOnce(ground, rng)
    load.stop()
    await cameTrue(() => load.underWay === 0, SETTLE_MS)
  } finally {
    load.stop()
    connections.stop()
  }
  for (const text of load.wrongAnswers) violations.add('wrong answer', text)
  for (const { key, outcome, history } of load.batches) {
    if (key !== null && outcome !== 'accepted') violations.add('repeated and never accepted', history)
  }
  done.rounds += rounds
  done.accepted += load.batches.filter(({ outcome }) => outcome === 'accepted').length
  done.sent += load.counts.tries
  done.records += await judge(ground, load.batches, violations)
}

/** @param {Ground} ground @param {Rng} rng */
async function killOnce(ground, rng) {
  const { nodes, stores } = ground
  const victim = nodes[Math.floor(rng() * nodes.length)]
  const restart = stores !== null && rng() < RESTART_SHARE ? stores[rng() < 0.5 ? 'nats' : 'redis'] : null
  const restarted = restart?.terminate().then(() => restart.restart())
  await sleep(rng() * LONGEST_LIFE_MS)
  await victim.kill()
  await restarted
  await victim.start()
  await ready(ground)
}

/** @param {Ground} ground */
async function ready({ nodes }) {
  if ((await untilReady(nodes, READY_TIMEOUT_MS)) === null) throw new Error('the nodes are not ready')
}

/** Ends the nodes, reads the queue, and gives the number of its records. @param {Ground} ground @param {Load['batches']} batches @param {Violations} violations */
async function judge({ nodes, dist, stores, readQueue, counters }, batches, violations) {
  for (const node of nodes) {
    const exit = await node.terminate()
    if (exit?.code !== 0) violations.add('no clean end', `${node.name}: ${exit === null ? 'late' : exit.code}`)
  }
  const { batchIdOf } = await import(pathToFileURL(join(dist, 'contract', 'ids.js')).href)
  // With Redis and NATS the audit knows later.
  const counted = stores === null ? async (/** @type {LimitedApp} */ each) => (await counters(each)).month : null
  return judgeQueue({ batches, readQueue, counted, batchIdOf, violations })
}

/**
 * @param {{ batches: Load['batches'], readQueue: (onRecord: (record: import('../faults/stream.js').StoredRecord) => void) => Promise<unknown>,
 *   counted: ((app: LimitedApp) => Promise<number>) | null, batchIdOf: (appId: string, key: string) => string, violations: Violations }} options
 *   `counted`: events in an app's month @returns {Promise<number>} of records
 */
export async function judgeQueue({ batches, readQueue, counted, batchIdOf, violations }) {
  const check = new StreamCheck({ batches, apps: APPS, batchIdOf, violations })
  try {
    await readQueue((record) => check.take(record))
  } catch (error) {
    violations.add('the queue cannot be read', error instanceof Error ? error.message : String(error))
  }
  check.end()
  for (const each of counted === null ? [] : APPS) {
    const stored = check.stored.filter(({ appId }) => appId === each.appId)
    const used = await counted?.(each)
    // One write makes a batch durable and counts it: one that nobody was told of, too.
    const { most } = eventsCharged(stored)
    const fault = counterFault({ appId: each.appId, window: 'month', used: used ?? 0, charged: { least: most, most } })
    if (fault !== null) violations.add('counter', fault)
  }
  return check.stored.length
}

/** What the run is about, out of all that is wrong. @param {Violations} violations */
export function lostAndTwice(violations) {
  const sumOf = (/** @type {string[]} */ ...kinds) => kinds.reduce((sum, kind) => sum + violations.countOf(kind), 0)
  return {
    lost: sumOf('202, but not in the queue', 'stored with other events than were sent'),
    twice: sumOf('stored twice', 'accepted twice as new', 'one batch id for two batches'),
  }
}
