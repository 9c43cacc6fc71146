// @ts-check
// What an outage of NATS costs a node with a spool: its CPU a request while it spools, beside the journal's and its own with NATS
// there; how fast it sends what it has spooled, beside what NATS takes of a client that does nothing else; and how long live
// requests take meanwhile.

import { setTimeout as sleep } from 'node:timers/promises'
import { jetstream } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { metricsOf } from '../../test/support/processes.js'
import { uuid } from '../payloads.js'
import { temporaryFolder } from '../shared/program.js'
import { cameTrue } from '../shared/until.js'
import { casesOf, SEED } from './cases.js'
import { runPaced } from './pacing.js'
import { ensurePrograms, startCluster } from './programs.js'
import { median, middle, number, REQUEST, table } from './report.js'
import { startService } from './servers.js'
import { eachCase, withServers } from './turns.js'
import { bodiesOf, runWrk } from './wrk.js'

/**
 * `drained`, `published`: messages a second; `p99`: of live requests while it drains, and without, in ms; null: all was sent before.
 * @typedef {{ journal: number, stream: number, spool: number, drained: number | null, published: number, p99: { draining: number | null, without: number } }} Round
 */

const CASES = casesOf({ events: [1, 10], keyed: [false, true] })
const POLL_MS = 100
const DRAIN_MS = 180_000
/** As many as a spool has under way. */
const WINDOW = 64
const PUBLISH_MS = 3000
/** Of live requests while it drains. */
const LIVE = { perSecond: 500, seconds: 5 }
/** The audit reads what was sent. */
const CALM_MS = 3000
const CONNECTIONS = 64

/** @param {import('./turns.js').Options} options @returns {Promise<import('./turns.js').Section>} */
export async function spool(options) {
  ensurePrograms(['redis-server', 'nats-server'])
  const rounds = options.quick ? 1 : 3
  const starts = {
    journal: startService,
    node: () => startCluster({ env: { SLUICE_SPOOL_DIR: temporaryFolder('bench') } }),
  }
  const results = await eachCase(options, options.quick ? CASES.slice(0, 1) : CASES, (kind, bodies) =>
    withServers(starts, async (servers) => {
      const load = { ...kind, seconds: options.quick ? 1 : 2 }
      for (const server of Object.values(servers)) await runWrk(server, bodies, { ...load, seconds: 1 })
      const turns = []
      while (turns.length < rounds) turns.push(await roundOf(load, bodies, { ...servers, isFirst: turns.length === 0 }))
      return { turns }
    }),
  )
  const title =
    'A spool in an outage of NATS: CPU a request of one node, with its journal, over Redis and NATS, and while it spools; then batches ' +
    `a second that it sends with no live traffic, and messages a second of a client that keeps ${WINDOW} under way; and ${LIVE.perSecond} live requests a second while it drains; medians of ${rounds}`
  // Rounds in which all was sent before it could be measured have neither.
  const drained = (
    /** @type {readonly Round[]} */ turns,
    /** @type {(drained: number, round: Round) => number} */ read,
    digits = 0,
  ) => shown(turns, (round) => (round.drained === null ? null : read(round.drained, round)), digits, '')
  const live = (
    /** @type {readonly Round[]} */ turns,
    /** @type {(draining: number, without: number) => number} */ read,
    digits = 1,
    none = '',
  ) =>
    shown(turns, ({ p99: { draining, without } }) => (draining === null ? null : read(draining, without)), digits, none)
  const text = table(title, results, options, [
    REQUEST,
    ['journal µs', ({ turns }) => middle(turns, ({ journal }) => journal, 1)],
    ['NATS µs', ({ turns }) => middle(turns, ({ stream }) => stream, 1)],
    ['spooling µs', ({ turns }) => middle(turns, (turn) => turn.spool, 1)],
    ['spooling / journal', ({ turns }) => middle(turns, (turn) => turn.spool / turn.journal, 2)],
    ['spooling / NATS', ({ turns }) => middle(turns, (turn) => turn.spool / turn.stream, 2)],
    ['sent again /s', ({ turns }) => drained(turns, (rate) => rate)],
    ['NATS alone /s', ({ turns }) => middle(turns, ({ published }) => published)],
    ['share', ({ turns }) => drained(turns, (rate, { published }) => rate / published, 2)],
    ['live p99 ms, draining', ({ turns }) => live(turns, (draining) => draining, 1, 'sent before')],
    ['without', ({ turns }) => live(turns, (_, without) => without)],
    ['ratio', ({ turns }) => live(turns, (draining, without) => draining / without, 2)],
  ])
  return { numbers: results, text }
}

/** The median of the rounds that have it. @param {readonly Round[]} turns @param {(round: Round) => number | null} read @param {number} digits @param {string} none */
function shown(turns, read, digits, none) {
  const values = turns.map(read).filter((value) => value !== null)
  return values.length === 0 ? none : number(median(values), digits)
}

/**
 * @param {import('./cases.js').Case & { seconds: number }} load @param {import('./turns.js').Bodies} bodies
 * @param {{ journal: import('./servers.js').Server, node: import('./programs.js').Cluster, isFirst: boolean }} on @returns {Promise<Round>}
 */
async function roundOf(load, bodies, { journal, node, isFirst }) {
  const [nats] = node.nats.servers
  const { cpuUsPerRequest: ofJournal } = await runWrk(journal, bodies, load)
  const { cpuUsPerRequest: ofStream } = await runWrk(node, bodies, load)
  await nats.kill()
  await until(node, 'sluice_nats_up', 0)
  // Once to warm up what only an outage runs.
  if (isFirst) await runWrk(node, bodies, load)
  const { cpuUsPerRequest: ofSpool } = await runWrk(node, bodies, load)
  await nats.restart()
  const live = async () => {
    const { phases } = await runPaced(node, bodies, [LIVE], { connections: CONNECTIONS, keyed: load.keyed })
    return phases[0].accepted.fromSentMs.p99 ?? Number.NaN
  }
  const first = await untilItDrains(node)
  const beside = await live()
  const isDraining = (await spooledBy(node)) > 0
  const drained = isDraining ? await drainRate(node) : null
  await sleep(CALM_MS)
  return {
    journal: ofJournal,
    stream: ofStream,
    spool: ofSpool,
    drained,
    p99: { draining: first > 0 && isDraining ? beside : null, without: await live() },
    published: await publishRate(nats.url, Buffer.byteLength(bodiesOf(load, SEED, Date.now())[0])),
  }
}

/** @param {import('./servers.js').Server} node @param {string} name @param {number} value */
async function until(node, name, value) {
  const isSo = async () => (await metricsOf(node)).get(name) === value
  if (!(await cameTrue(isSo, DRAIN_MS, POLL_MS))) throw new Error(`${name} has not become ${value}`)
}

/** @param {import('./servers.js').Server} node */
async function spooledBy(node) {
  return (await metricsOf(node)).get('sluice_spool_batches') ?? 0
}

/** Gives what it then holds. @param {import('./servers.js').Server} node */
async function untilItDrains(node) {
  const all = await spooledBy(node)
  let left = all
  const isDraining = async () => (left = await spooledBy(node)) < all
  if (!(await cameTrue(isDraining, DRAIN_MS, POLL_MS))) throw new Error('nothing is sent from the spool')
  return left
}

/** Of the rest. @param {import('./servers.js').Server} node */
async function drainRate(node) {
  const beganMs = performance.now()
  const left = await spooledBy(node)
  await until(node, 'sluice_spool_batches', 0)
  return left / ((performance.now() - beganMs) / 1000)
}

/** Messages with an id, to a subject of the stream that only this measurement uses. @param {string} url @param {number} bytes */
async function publishRate(url, bytes) {
  const connection = await connect({ servers: url.replace('nats://', '') })
  try {
    const client = jetstream(connection)
    const body = Buffer.alloc(bytes, 'x')
    const untilMs = performance.now() + PUBLISH_MS
    let count = 0
    const one = async () => {
      while (performance.now() < untilMs) {
        await client.publish('sluice.events.bench', body, { msgID: uuid(Math.random) })
        count += 1
      }
    }
    await Promise.all(Array.from({ length: WINDOW }, one))
    return count / (PUBLISH_MS / 1000)
  } finally {
    await connection.close()
  }
}
