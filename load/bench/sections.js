// @ts-check
// The service beside the raw front end, the decoder alone, and the memory of the service.

import { once } from 'node:events'
import { connect } from 'node:net'
import { CASES, casesOf, counted, nameOf } from './cases.js'
import { answerOf, LOAD_CORE, memoryMb } from './processes.js'
import { median, middle, number, REQUEST, table } from './report.js'
import { startRaw, startService } from './servers.js'
import { compareLoads, eachCase, withServers } from './turns.js'
import { verdict } from './verdict.js'
import { unlessVoid } from './void-runs.js'
import { CONNECTIONS, runWrk } from './wrk.js'

const DECODE = new URL('decode.js', import.meta.url)
/** @typedef {import('./turns.js').Options} Options */
/** @typedef {import('./turns.js').Section} Section */

const IDLE_CONNECTIONS = 4000

/** Under as much load as each takes. @param {Options} options @returns {Promise<Section>} */
export async function throughput(options) {
  const rounds = options.quick ? 1 : 3
  const results = await compareLoads(options, {
    cases: options.quick ? CASES.filter(({ keyed, varied }) => keyed === varied) : CASES,
    starts: () => ({ raw: startRaw, service: startService }),
    rounds,
  })
  const title = `Throughput: one core, embedded queue, ${CONNECTIONS} connections where no others are named, compared with "raw", uWebSockets.js that only reads the body and answers; medians of ${rounds}`
  const text = table(title, results, options, [
    REQUEST,
    ['raw /s', ({ turns }) => middle(turns, ({ raw }) => raw.perSecond)],
    ['sluice /s', ({ turns }) => middle(turns, ({ service }) => service.perSecond)],
    ['ratio', ({ turns }) => middle(turns, ({ raw, service }) => service.perSecond / raw.perSecond, 2)],
    ['events /s', ({ kind, turns }) => middle(turns, ({ service }) => service.perSecond * kind.events)],
    ['raw CPU µs', ({ turns }) => middle(turns, ({ raw }) => raw.cpuUsPerRequest, 1)],
    ['CPU µs', ({ turns }) => middle(turns, ({ service }) => service.cpuUsPerRequest, 1)],
    ['p50 ms', ({ turns }) => middle(turns, ({ service }) => service.p50Us / 1000, 2)],
    ['p99 ms', ({ turns }) => middle(turns, ({ service }) => service.p99Us / 1000, 2)],
  ])
  const shares = results.map(({ name, turns }) => {
    const of = (/** @type {'raw' | 'service'} */ side) => median(turns.map((turn) => turn[side].cpuUsPerRequest))
    return { name, here: of('raw') / of('service') }
  })
  return { numbers: results, text: `${text}\n${verdict(shares)}` }
}

/** @param {Options} options @returns {Promise<Section>} */
export async function decode(options) {
  options.progress('decoding alone')
  /** @type {{ events: number, body: string, bytes: number, turns: { ownUs: number, usualUs: number }[] }[]} */
  const results = await answerOf(LOAD_CORE, DECODE, [options.quick ? 40 : 120])
  const title =
    'Decoding alone: CPU time of a body, compared with isUtf8, JSON.parse, a compiled schema and JSON.stringify'
  const text = table(title, results, options, [
    ['body', ({ events, body }) => `${counted(events, 'event')}, ${body}`],
    ['bytes', ({ bytes }) => number(bytes)],
    ['decoder µs', ({ turns }) => middle(turns, ({ ownUs }) => ownUs, 2)],
    ['JSON.parse + ajv µs', ({ turns }) => middle(turns, ({ usualUs }) => usualUs, 2)],
    ['speedup', ({ turns }) => middle(turns, ({ ownUs, usualUs }) => usualUs / ownUs, 1)],
    ['MB/s', ({ bytes, turns }) => number(bytes / median(turns.map(({ ownUs }) => ownUs)))],
  ])
  return { numbers: results, text }
}

/** Resident memory when idle, with many connections, and while the service has as much to do as it can, by what reads HTTP. @param {Options} options @returns {Promise<Section>} */
export async function memory(options) {
  const { seconds } = options
  const cases = casesOf({ varied: [true], engine: ['uws', 'node'] })
  const results = await eachCase(options, cases, (kind, bodies, name) => {
    const starts = { service: () => startService({ env: { SLUICE_HTTP_ENGINE: kind.engine ?? '' } }) }
    return withServers(starts, async ({ service }) => {
      const idle = memoryMb(service.pid)
      await unlessVoid(name, () => runWrk(service, bodies, { keyed: false, seconds: 1 }))
      const result = await runWrk(service, bodies, { keyed: false, seconds })
      const loaded = memoryMb(service.pid)
      return { idle, loaded, result, connectionKb: await idleConnectionKb(service) }
    })
  })
  const title = `Memory: ${nameOf(casesOf({ varied: [true] })[0])}, one core, one decoder thread, ${seconds} s`
  const text = table(title, results, options, [
    ['what reads HTTP', ({ kind }) => kind.engine ?? ''],
    ['idle MB', ({ idle }) => number(idle.resident)],
    [`after ${seconds} s at full load`, ({ loaded }) => number(loaded.resident)],
    ['peak', ({ loaded }) => number(loaded.peak)],
    ['requests /s', ({ result }) => number(result.perSecond)],
    // Freed memory is used again first.
    ['an idle connection KB', ({ connectionKb }) => (connectionKb > 0 ? number(connectionKb, 2) : 'not seen')],
  ])
  return { numbers: results, text }
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
