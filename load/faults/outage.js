// @ts-check
// A long outage of NATS, which nodes with a spool live through: all its servers are gone for minutes, and nodes are killed
// meanwhile and while they send what they have spooled.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readMetrics } from '../../test/support/metrics.js'
import { createRng } from '../payloads.js'
import { cameTrue } from '../shared/until.js'
import { happen, OUTAGE } from './faults.js'
import { ask, untilReady } from './watch.js'

/** Before NATS goes, and after all is sent: for the latencies that the drain's are held against. */
const CALM_MS = 30_000
/** App records are written down after some seconds. */
const KEPT_MS = 60_000
const READY_MS = 30_000
const POLL_MS = 500
/** A drain takes as long as the outage, or twice that where the load takes most of NATS; beyond it, it hangs. */
const DRAIN_SHARE = 3
const LEAST_DRAIN_MS = 300_000
/** How long a killed node is gone, in ms: well within the two minutes after which its spool counts no more. */
const GONE_MS = [100, 5000]
/** What a 503 may be for while disk is left. */
const ALLOWED = new Set(['apps_unread', 'key_busy'])
const MOST_BUSY_SHARE = 0.001

/** @typedef {import('./faults.js').EpisodeEntry} EpisodeEntry */
/** @typedef {{ mostBatches: number, drainMs: number | null, sentPerSecond: number | null }} Drained */

/**
 * @param {{ seed: number, outageMs: number, everyMs: number, killCount: number, folder: string }} options
 *   `killCount`: no more nodes are killed
 * @param {import('./faults.js').Ground} ground @param {import('./load.js').Load} load
 * @param {import('./checks.js').Violations} violations
 * @returns {Promise<{ log: EpisodeEntry[], drained: Drained }>}
 */
export async function makeOutage({ seed, outageMs, everyMs, killCount, folder }, ground, load, violations) {
  const { nodes, nats } = ground
  const rng = createRng(seed)
  /** @type {EpisodeEntry[]} */
  const log = []
  const tell = (/** @type {string} */ text) => void process.stderr.write(`${text}\n`)
  const isKept = () => nodes.every(({ name }) => existsSync(join(folder, name, 'spool', 'apps.ndjson')))
  if (!(await cameTrue(isKept, KEPT_MS, POLL_MS))) throw new Error('the nodes keep no app records')
  load.phase = 'before'
  await sleep(CALM_MS)

  load.phase = 'NATS away'
  const startedMs = Date.now()
  await nats.kill()
  tell(`NATS is gone, for ${outageMs / 60_000} min`)
  await killNodes(() => Date.now() - startedMs >= outageMs)
  const mostBatches = (await spooled()) ?? 0
  await nats.restart()
  const healedMs = Date.now()
  tell(`NATS is back; ${mostBatches} batches are spooled`)

  load.phase = 'draining'
  const kills = log.length
  let isDrained = false
  const draining = drain().then((ms) => {
    isDrained = true
    return ms
  })
  await killNodes(() => isDrained)
  const drainMs = await draining
  const endedMs = log[kills]?.startedMs ?? Date.now()
  log.unshift({ startedMs, healedMs, readyMs: healedMs, endedMs, entries: [entry(startedMs, healedMs)] })
  if (drainMs === null) violations.add('not sent in time', `left: ${await spooled()} batches`)
  load.phase = 'after'
  await sleep(CALM_MS)
  const sentPerSecond = drainMs === null ? null : Math.round(mostBatches / (drainMs / 1000))
  return { log, drained: { mostBatches, drainMs, sentPerSecond } }

  /** @param {() => boolean} isOver */
  async function killNodes(isOver) {
    for (;;) {
      const pauseMs = everyMs * (0.5 + rng())
      if (await cameTrue(isOver, pauseMs, POLL_MS)) return
      if (log.length >= killCount) continue
      const atMs = Date.now()
      const holdMs = GONE_MS[0] * (GONE_MS[1] / GONE_MS[0]) ** rng()
      const nodeIndex = Math.floor(rng() * nodes.length)
      const killed = await happen({ kind: 'node-kill', nodeIndex, delayMs: 0, holdMs }, ground)
      const readyMs = await untilReady(nodes, READY_MS)
      if (readyMs === null) violations.add('not ready again', `${READY_MS / 1000} s after ${killed.target} was killed`)
      tell(`${killed.target} killed; ${await spooled()} batches are spooled`)
      const previous = log.at(-1)
      if (previous !== undefined) previous.endedMs = atMs
      const { healedMs: upMs } = killed
      log.push({
        startedMs: atMs,
        healedMs: upMs,
        readyMs: readyMs ?? Date.now(),
        endedMs: Infinity,
        entries: [killed],
      })
    }
  }

  /** How long it took until all was sent. */
  async function drain() {
    const mostMs = Math.max(LEAST_DRAIN_MS, outageMs * DRAIN_SHARE)
    const isDone = await cameTrue(async () => (await spooled()) === 0, mostMs, POLL_MS)
    return isDone ? Date.now() - healedMs : null
  }

  /** Of all nodes; null: one does not answer. */
  async function spooled() {
    const pages = await Promise.all(nodes.map((node) => ask(node, '/metrics')))
    const counts = pages.map((page) => readMetrics(page?.text ?? '').get('sluice_spool_batches') ?? null)
    return counts.reduce((sum, count) => (sum === null || count === null ? null : sum + count), 0)
  }
}

/** @param {number} startedMs @param {number} healedMs @returns {import('./faults.js').FaultEntry} */
function entry(startedMs, healedMs) {
  return { kind: OUTAGE, target: 'all servers', startedMs, healedMs }
}

/**
 * With a spool and disk left, 503s have two reasons, and few.
 * @param {{ tries: number, overloaded: number, reasons: Readonly<Record<string, number>> }} seen `overloaded`: as clients saw it;
 *   `reasons`: as the nodes counted, but for the last two seconds of those that were killed
 * @param {import('./checks.js').Violations} violations
 */
export function checkOverloads({ tries, overloaded, reasons }, violations) {
  for (const [reason, count] of Object.entries(reasons)) {
    if (!ALLOWED.has(reason)) violations.add('a 503 while disk was left', `${count} for ${reason}`)
  }
  const busy = overloaded - (reasons['apps_unread'] ?? 0)
  if (busy > tries * MOST_BUSY_SHARE) {
    violations.add('too many 503s', `${busy} of ${tries} tries, beyond apps_unread; most: 0.1%`)
  }
}
