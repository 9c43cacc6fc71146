// @ts-check
// What a compressed body that unfolds to nothing costs the thread that reads HTTP, in its CPU time, which other work on the machine does
// not lengthen as it does wall time: `node load/fuzz/loop-cost.js`, after a build; `--bodies 20` for a short run. Linux alone counts it by thread.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { endAll } from '../../test/support/processes.js'
import { endlessApp, startService } from '../shared/service.js'
import { emptyBrotli, emptyGzip, emptyZlib } from './empty-blocks.js'

const { values } = parseArgs({ options: { bodies: { type: 'string', default: '2000' } } })
const BODIES = Number(values.bodies)
const LANES = 4
const SIZES = [16_384, 524_288]
/** Of the large ones: each takes a decoder a tenth of a second. */
const FEWER = 10
const NS_PER_MS = 1e6
/** Of a try, as src/request/inflate.ts has it. */
const TRY_OUTPUT_BYTES = 64 * 1024 + 1
const TRY_ROUNDS = 20
const TRIES = 100
/** The built service's own. Its path is not known to the type checker, which runs before any build. */
const built = new URL('../../dist/request/zlib.js', import.meta.url).href
/** @type {typeof import('../../src/request/zlib.ts')} */
const { decodeNow } = await import(built)
const agent = new Agent({ keepAlive: true, maxSockets: LANES })

/** CPU time of its first thread. @param {number} pid */
function cpuMs(pid) {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[0]) / NS_PER_MS
}

/** @param {number} port @param {Buffer} body @param {string | null} encoding @returns {Promise<number>} */
function send(port, body, encoding) {
  return new Promise((resolve, reject) => {
    const headers = {
      'Content-Type': 'application/json',
      'Content-Length': body.length,
      ...(encoding !== null && { 'Content-Encoding': encoding }),
    }
    const sent = request({ host: '127.0.0.1', port, method: 'POST', path: '/api/v1/events', headers, agent })
    sent.on('error', reject).on('response', (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode ?? 0))
    })
    sent.end(body)
  })
}

/** @param {{ port: number, pid: number }} service @param {Buffer} body @param {string | null} encoding @param {number} bodies */
async function costOf(service, body, encoding, bodies) {
  /** @type {Record<number, number>} */
  const heard = {}
  let left = bodies
  const before = cpuMs(service.pid)
  const lane = async () => {
    while (left-- > 0) {
      const status = await send(service.port, body, encoding)
      heard[status] = (heard[status] ?? 0) + 1
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  return { ms: (cpuMs(service.pid) - before) / bodies, heard: JSON.stringify(heard) }
}

/** Of the try in the event loop alone, in this process: the lowest mean of some rounds. @param {import('../../src/request/zlib.ts').Format} format @param {Buffer} body */
function tryMs(format, body) {
  const out = Buffer.allocUnsafeSlow(TRY_OUTPUT_BYTES)
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < TRY_ROUNDS; round++) {
    const before = cpuMs(process.pid)
    for (let each = 0; each < TRIES; each++) {
      const startedMs = performance.now()
      decodeNow(format, body, out, () => performance.now() - startedMs)
    }
    least = Math.min(least, (cpuMs(process.pid) - before) / TRIES)
  }
  return least
}

const dataDir = mkdtempSync(join(tmpdir(), 'sluice-loop-cost-'))
try {
  const service = await startService({ dataDir, apps: [endlessApp('ak_one', 'one')] })
  for (const bytes of SIZES) {
    const bodies = bytes > SIZES[0] ? BODIES / FEWER : BODIES
    const plain = Buffer.alloc(bytes, ' ')
    const rows = /** @type {const} */ ([
      ['no JSON, not compressed', plain, null],
      ['br', emptyBrotli(bytes), 'br'],
      ['gzip', emptyGzip(bytes), 'gzip'],
      ['deflate', emptyZlib(bytes), 'deflate'],
    ])
    for (const [name, body, encoding] of rows) {
      await costOf(service, body, encoding, bodies / FEWER)
      const { ms, heard } = await costOf(service, body, encoding, bodies)
      console.log(
        `${process.version} ${bytes} bytes, ${name}: ${ms.toFixed(3)} ms of the acceptor's CPU each, ${heard}`,
      )
    }
  }
  await service.stop()
  const tried = /** @type {const} */ ([
    ['br', emptyBrotli(SIZES[0])],
    ['gzip', emptyGzip(SIZES[0])],
    ['zlib', emptyZlib(SIZES[0])],
  ])
  for (const [format, body] of tried) {
    console.log(
      `${process.version} ${SIZES[0]} bytes, ${format}: ${tryMs(format, body).toFixed(3)} ms for the try alone`,
    )
  }
} finally {
  agent.destroy()
  await endAll()
  rmSync(dataDir, { recursive: true, force: true })
}
