// @ts-check
// What an outage of NATS costs a node with a spool: its CPU a request while it spools, beside the journal's and its own with NATS
// there; how fast it sends what it has spooled, beside what NATS takes of a client that does nothing else; and how long live
// requests take meanwhile.

import { setTimeout as sleep } from 'node:timers/promises'
import { jetstream } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { metricsOf } from '../../test/support/processes.js'
import { uuid } from '../payloads.js'
import { SEED } from './cases.js'
import { runPaced } from './pacing.js'
import { ensurePrograms, startNats, startRedis } from './programs.js'
import { median, medianRatio, number, table } from './report.js'
import { startService, temporaryFolder } from './servers.js'
import { bodiesOf, runWrk, writeBodies } from './wrk.js'

/** @typedef {import('./wrk.js').Case} Case */
/**
 * `drained`, `published`: messages a second; `p99`: of live requests while it drains, and without, in ms; null: all was sent before.
 * @typedef {{ journal: number, stream: number, spool: number, drained: number | null, published: number, p99: { draining: number | null, without: number } }} Round
 */

/** @type {Case[]} */
const CASES = [1, 10].flatMap((events) =>
  [false, true].map((keyed) => ({ events: /** @type {1 | 10} */ (events), keyed, varied: false })),
)
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

/** @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function spool(options) {
  ensurePrograms(['redis-server', 'nats-server'])
  const rounds = options.quick ? 1 : 3
  const seconds = options.quick ? 1 : 2
  const numbers = []
  for (const kind of options.quick ? CASES.slice(0, 1) : CASES) {
    options.progress(`spool: ${nameOf(kind)}`)
    const bodies = await writeBodies(options.folder, kind, SEED)
    const [redis, nats, journal] = [await startRedis(), await startNats(), await startService()]
    const node = await startService({
      env: { REDIS_URL: redis.url, NATS_URL: nats.url, SLUICE_SPOOL_DIR: temporaryFolder() },
    })
    const load = { keyed: kind.keyed, seconds }
    for (const server of [journal, node]) await runWrk(server, bodies, { ...load, seconds: 1 })
    /** @type {Round[]} */
    const runs = []
    for (let round = 0; round < rounds; round++) {
      const { cpuUsPerRequest: ofJournal } = await runWrk(journal, bodies, load)
      const { cpuUsPerRequest: ofStream } = await runWrk(node, bodies, load)
      await nats.kill()
      await until(node, 'sluice_nats_up', 0)
      // Once to warm up what only an outage runs.
      if (round === 0) await runWrk(node, bodies, load)
      const { cpuUsPerRequest: ofSpool } = await runWrk(node, bodies, load)
      await nats.restart()
      const live = async () => {
        const { phases } = await runPaced(node, bodies, {
          phases: [LIVE],
          connections: CONNECTIONS,
          keyed: kind.keyed,
        })
        return phases[0].accepted.fromSentMs.p99 ?? Number.NaN
      }
      const first = await untilItDrains(node)
      const beside = await live()
      const isDraining = (await spooledBy(node)) > 0
      const drained = isDraining ? await drainRate(node) : null
      await sleep(CALM_MS)
      runs.push({
        journal: ofJournal,
        stream: ofStream,
        spool: ofSpool,
        drained,
        p99: { draining: first > 0 && isDraining ? beside : null, without: await live() },
        published: await publishRate(nats.url, recordBytes(kind)),
      })
    }
    await Promise.all([node.stop(), journal.stop()])
    await Promise.all([redis.stop(), nats.stop()])
    numbers.push({ kind, runs })
  }
  const head = ['request', 'journal µs', 'NATS µs', 'spooling µs', 'spooling / journal', 'spooling / NATS'].concat([
    'sent again /s',
    'NATS alone /s',
    'share',
    'live p99 ms, draining',
    'without',
    'ratio',
  ])
  const rows = numbers.map(({ kind, runs }) => {
    const of = (/** @type {'journal' | 'stream' | 'spool' | 'published'} */ name) => runs.map((run) => run[name])
    const sent = runs.flatMap(({ drained, published }) => (drained === null ? [] : [{ drained, published }]))
    const drained = sent.map((run) => run.drained)
    const whole = runs.flatMap(({ p99: { draining, without } }) => (draining === null ? [] : [{ draining, without }]))
    const [draining, without] = [whole.map((run) => run.draining), whole.map((run) => run.without)]
    return [
      nameOf(kind),
      ...['journal', 'stream', 'spool'].map((name) => number(median(of(/** @type {'journal'} */ (name))), 1)),
      number(medianRatio(of('spool'), of('journal')), 2),
      number(medianRatio(of('spool'), of('stream')), 2),
      sent.length === 0 ? '' : number(median(drained)),
      number(median(of('published'))),
      sent.length === 0
        ? ''
        : number(
            medianRatio(
              drained,
              sent.map((run) => run.published),
            ),
            2,
          ),
      ...(whole.length === 0
        ? ['sent before', '', '']
        : [number(median(draining), 1), number(median(without), 1), number(medianRatio(draining, without), 2)]),
    ]
  })
  const title =
    'A spool in an outage of NATS: CPU a request of one node, with its journal, over Redis and NATS, and while it spools; then batches ' +
    `a second that it sends with no live traffic, and messages a second of a client that keeps ${WINDOW} under way; and ${LIVE.perSecond} live requests a second while it drains; medians of ${rounds}`
  return { numbers, text: table(title, head, rows, options) }
}

/** @param {Case} kind */
function nameOf({ events, keyed }) {
  return `${events} event${events > 1 ? 's' : ''}${keyed ? ', keyed' : ''}`
}

/** @param {import('./servers.js').Server} node @param {string} name @param {number} value */
async function until(node, name, value) {
  const deadlineMs = Date.now() + DRAIN_MS
  while ((await metricsOf(node)).get(name) !== value) {
    if (Date.now() > deadlineMs) throw new Error(`${name} has not become ${value}`)
    await sleep(POLL_MS)
  }
}

/** @param {import('./servers.js').Server} node */
async function spooledBy(node) {
  return (await metricsOf(node)).get('sluice_spool_batches') ?? 0
}

/** Gives what it then holds. @param {import('./servers.js').Server} node */
async function untilItDrains(node) {
  const all = await spooledBy(node)
  const deadlineMs = Date.now() + DRAIN_MS
  while (Date.now() < deadlineMs) {
    const left = await spooledBy(node)
    if (left < all) return left
    await sleep(POLL_MS)
  }
  throw new Error('nothing is sent from the spool')
}

/** Of the rest. @param {import('./servers.js').Server} node */
async function drainRate(node) {
  const beganMs = performance.now()
  const left = await spooledBy(node)
  await until(node, 'sluice_spool_batches', 0)
  return left / ((performance.now() - beganMs) / 1000)
}

/** Of a message in the stream, about. @param {Case} kind */
function recordBytes(kind) {
  return Buffer.byteLength(bodiesOf(kind, SEED, Date.now())[0])
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
