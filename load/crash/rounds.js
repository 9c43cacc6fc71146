// @ts-check
// Rounds of kill -9 on one ground, and their judgement: every batch that was answered 202 is in the queue, whole and once.

import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { counterFault, eventsCharged, StreamCheck } from '../faults/checks.js'
import { untilReady } from '../faults/watch.js'
import { Clients } from './clients.js'
import { APPS } from './ground.js'

/** A node is killed at any moment from the start of the load on. */
const LONGEST_LIFE_MS = 1500
/** With Redis and NATS: how often one of them is restarted while the load goes on. */
const RESTART_SHARE = 0.2
/** How long the clients of two nodes go on at the other one. */
const AFTER_KILL_MS = 50
const READY_TIMEOUT_MS = 30_000

/** @typedef {import('./ground.js').Ground} Ground */
/** @typedef {import('../faults/checks.js').Violations} Violations */
/** @typedef {{ rounds: number, accepted: number, sent: number, records: number }} Done */

/**
 * @param {Ground} ground
 * @param {{ rounds: number, rng: import('../payloads.js').Rng, violations: Violations, done: Done }} options adds to `done`
 */
export async function runRounds(ground, { rounds, rng, violations, done }) {
  const clients = new Clients({ rng, nowMs: Date.now(), violations })
  try {
    await ready(ground)
    for (let round = 0; round < rounds; round++) await killOnce(ground, clients, rng)
    await clients.settle(ground.nodes)
    done.rounds += rounds
    done.accepted += clients.accepted
    done.sent += clients.sent
    done.records += await judge(ground, clients, violations)
  } finally {
    clients.stop()
  }
}

/** @param {Ground} ground @param {Clients} clients @param {import('../payloads.js').Rng} rng */
async function killOnce(ground, clients, rng) {
  const { nodes, stores } = ground
  const ended = new AbortController()
  const load = clients.load(nodes, ended.signal)
  const victim = nodes[Math.floor(rng() * nodes.length)]
  const restart = stores.length > 0 && rng() < RESTART_SHARE ? stores[Math.floor(rng() * stores.length)] : null
  const restarted = restart === null ? null : restartStore(restart)
  await sleep(rng() * LONGEST_LIFE_MS)
  await victim.kill()
  const others = nodes.filter((node) => node !== victim)
  if (others.length > 0) await sleep(AFTER_KILL_MS)
  ended.abort()
  await load
  await restarted
  if (others.length > 0) await clients.repeat(others, 0.5)
  await victim.start()
  await ready(ground)
  await clients.repeat(nodes, 1)
  await clients.replay(nodes)
}

/** @param {import('./ground.js').Store} store */
async function restartStore(store) {
  await store.terminate()
  await store.restart()
}

/** @param {Ground} ground */
async function ready({ nodes }) {
  if ((await untilReady(nodes, READY_TIMEOUT_MS)) === null) throw new Error('the nodes are not ready')
}

/** Ends the nodes, reads the queue, and gives the number of its records. @param {Ground} ground @param {Clients} clients @param {Violations} violations */
async function judge(ground, clients, violations) {
  for (const node of ground.nodes) {
    const exit = await node.terminate()
    if (exit?.code !== 0) violations.add('no clean end', `${node.name}: ${exit === null ? 'late' : exit.code}`)
  }
  const { batchIdOf } = await import(pathToFileURL(join(ground.dist, 'contract', 'ids.js')).href)
  const { readQueue, counted } = ground
  return judgeQueue({ batches: clients.batches, readQueue, counted, batchIdOf, violations })
}

/**
 * @param {{ batches: readonly import('../faults/load.js').Batch[], readQueue: Ground['readQueue'], counted: Ground['counted'],
 *   batchIdOf: (appId: string, key: string) => string, violations: Violations }} options
 * @returns {Promise<number>} of records
 */
export async function judgeQueue({ batches, readQueue, counted, batchIdOf, violations }) {
  const check = new StreamCheck({ batches, apps: APPS, batchIdOf, violations })
  try {
    await readQueue((record) => check.take(record))
  } catch (error) {
    violations.add('the queue cannot be read', error instanceof Error ? error.message : String(error))
  }
  check.end()
  for (const app of counted === null ? [] : APPS) {
    const stored = check.stored.filter(({ appId }) => appId === app.appId)
    const used = await counted?.(app)
    // One write makes a batch durable and counts it: one that nobody was told of, too.
    const { most } = eventsCharged(stored)
    const fault = counterFault({ appId: app.appId, window: 'month', used: used ?? 0, charged: { least: most, most } })
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
