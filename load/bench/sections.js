// @ts-check
// What is measured, section by section. Each gives its numbers and the table made of them.

import { once } from 'node:events'
import { connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import { nameOf, SEED } from './cases.js'
import { LOAD_CORE, memoryMb, run } from './processes.js'
import { median, medianRatio, number, table } from './report.js'
import { startRaw, startService } from './servers.js'
import { verdict } from './verdict.js'
import { orUnmeasured, unlessVoid, VoidRun } from './void-runs.js'
import { CONNECTIONS, runWrk, writeBodies } from './wrk.js'

const IDLE_CONNECTIONS = 4000
const DECODE = fileURLToPath(new URL('decode.js', import.meta.url))

/**
 * `rows`: --compare leaves out those without it in their names; `machine`: the line below each table; `histograms`: a folder for the
 * latencies of each run at a fixed rate; `unmeasured`: what could not be measured so far.
 * @typedef {{ quick: boolean, seconds: number, markdown: boolean, rows: string, folder: string, machine: string, histograms: string | undefined,
 *   unmeasured: import('./void-runs.js').Unmeasured[], progress: (line: string) => void }} Options
 */
/** @typedef {{ numbers: unknown, text: string }} Section */

/** @type {import('./wrk.js').Case[]} */
export const BODIES = [false, true].flatMap((varied) =>
  [false, true].flatMap((keyed) => /** @type {const} */ ([1, 10, 100]).map((events) => ({ events, keyed, varied }))),
)
/** @type {import('./wrk.js').Case[]} */
const CLIENTS = [false, true].flatMap((varied) =>
  [1, 8, 64, 2000].map((connections) => ({ events: 1, keyed: false, varied, connections })),
)
export const CASES = [...BODIES, ...CLIENTS]

/** The service beside the raw front end, by turns, under as much load as it takes. @param {Options} options @returns {Promise<Section>} */
export async function throughput(options) {
  const rounds = options.quick ? 1 : 3
  const seconds = options.quick ? 1 : 2
  const raw = await startRaw()
  const results = []
  for (const kind of options.quick ? CASES.filter(({ keyed, varied }) => keyed === varied) : CASES) {
    options.progress(nameOf(kind))
    const bodies = await writeBodies(options.folder, kind, SEED)
    const service = await startService()
    const measure = (/** @type {import('./servers.js').Server} */ server, forSeconds = seconds) =>
      unlessVoid(nameOf(kind), () => runWrk(server, bodies, { ...kind, seconds: forSeconds }))
    const pairs = await orUnmeasured(options, nameOf(kind), async () => {
      await measure(service, 1)
      const measured = []
      for (let round = 0; round < rounds; round++) {
        measured.push({ ceiling: await measure(raw), service: await measure(service) })
      }
      return measured
    })
    await service.stop()
    if (pairs !== null) results.push({ kind, pairs })
  }
  await raw.stop()
  const head = ['request', 'raw /s', 'sluice /s', 'ratio', 'events /s', 'raw CPU µs', 'CPU µs', 'p50 ms', 'p99 ms']
  const rows = results.map(({ kind, pairs }) => {
    const of = (/** @type {(pair: typeof pairs[number]) => number} */ read) => median(pairs.map(read))
    const rate = of((pair) => pair.service.perSecond)
    const ratio = medianRatio(
      pairs.map((pair) => pair.service.perSecond),
      pairs.map((pair) => pair.ceiling.perSecond),
    )
    return [
      nameOf(kind),
      number(of((pair) => pair.ceiling.perSecond)),
      number(rate),
      number(ratio, 2),
      number(rate * kind.events),
      number(
        of((pair) => pair.ceiling.cpuUsPerRequest),
        1,
      ),
      number(
        of((pair) => pair.service.cpuUsPerRequest),
        1,
      ),
      number(
        of((pair) => pair.service.p50Us / 1000),
        2,
      ),
      number(
        of((pair) => pair.service.p99Us / 1000),
        2,
      ),
    ]
  })
  const title = `Throughput: one core, embedded queue, ${CONNECTIONS} connections where no others are named, compared with "raw", uWebSockets.js that only reads the body and answers; medians of ${rounds}`
  return { numbers: results, text: `${table(title, head, rows, options)}\n${verdict(rows)}` }
}

/** Decoding alone. @param {Options} options @returns {Promise<Section>} */
export async function decode(options) {
  options.progress('decoding alone')
  const output = await run(LOAD_CORE, [process.execPath, DECODE, options.quick ? '40' : '120'])
  /** @type {{ events: number, body: string, bytes: number, ownUs: number[], usualUs: number[] }[]} */
  const results = JSON.parse(output)
  const head = ['body', 'bytes', 'decoder µs', 'JSON.parse + ajv µs', 'speedup', 'MB/s']
  const rows = results.map(({ events, body, bytes, ownUs, usualUs }) => [
    `${events} event${events > 1 ? 's' : ''}, ${body}`,
    number(bytes),
    number(median(ownUs), 2),
    number(median(usualUs), 2),
    number(medianRatio(usualUs, ownUs), 1),
    number(bytes / median(ownUs)),
  ])
  const title =
    'Decoding alone: CPU time of a body, compared with isUtf8, JSON.parse, a compiled schema and JSON.stringify'
  return { numbers: results, text: table(title, head, rows, options) }
}

/** As SLUICE_HTTP_ENGINE has them; the first one is what the figures of the pages are of. */
const ENGINES = /** @type {const} */ (['uws', 'node'])

/** Resident memory when idle, with many connections, and while the service has as much to do as it can, by what reads HTTP. @param {Options} options @returns {Promise<Section>} */
export async function memory(options) {
  const { seconds } = options
  const kind = { events: /** @type {const} */ (1), keyed: false, varied: true }
  const bodies = await writeBodies(options.folder, kind, SEED)
  const results = []
  for (const engine of ENGINES) {
    options.progress(`memory at full load for ${seconds} s: ${engine}`)
    const measured = await orUnmeasured(options, `memory, ${engine}`, () => memoryOf(engine, bodies, seconds))
    if (measured !== null) results.push({ engine, ...measured })
  }
  if (results.length === 0) throw new VoidRun('no engine could be measured')
  const head = [
    'what reads HTTP',
    'idle MB',
    `after ${seconds} s at full load`,
    'peak',
    'requests /s',
    'an idle connection KB',
  ]
  const rows = results.map(({ engine, idle, loaded, result, connectionKb }) => [
    engine,
    number(idle.resident),
    number(loaded.resident),
    number(loaded.peak),
    number(result.perSecond),
    // Freed memory is used again first.
    connectionKb > 0 ? number(connectionKb, 2) : 'not seen',
  ])
  const title = `Memory: ${nameOf(kind)}, one core, one decoder thread, ${seconds} s`
  return { numbers: results, text: table(title, head, rows, options) }
}

/** @param {typeof ENGINES[number]} engine @param {{ folder: string, count: number }} bodies @param {number} seconds */
async function memoryOf(engine, bodies, seconds) {
  const service = await startService({ env: { SLUICE_HTTP_ENGINE: engine } })
  const idle = memoryMb(service.pid)
  await unlessVoid('memory', () => runWrk(service, bodies, { keyed: false, seconds: 1 }))
  const result = await runWrk(service, bodies, { keyed: false, seconds })
  const loaded = memoryMb(service.pid)
  const connectionKb = await idleConnectionKb(service)
  await service.stop()
  return { idle, loaded, result, connectionKb }
}

/** What one more connection takes that sends nothing: of many, since a page of memory is larger than one. @param {import('./servers.js').Server} service */
async function idleConnectionKb({ pid, port }) {
  const before = memoryMb(pid).resident
  const sockets = await Promise.all(
    Array.from({ length: IDLE_CONNECTIONS }, async () => {
      const socket = connect(port, '127.0.0.1')
      await once(socket, 'connect')
      return socket
    }),
  )
  const more = memoryMb(pid).resident - before
  for (const socket of sockets) socket.destroy()
  return Math.max(0, (more * 1024) / IDLE_CONNECTIONS)
}
