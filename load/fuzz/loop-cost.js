// @ts-check
// What a compressed body that unfolds to nothing costs the thread that reads HTTP, in its CPU time, which other work on the machine does
// not lengthen as it does wall time: `node load/fuzz/loop-cost.js`, after a build; `--bodies 20` for a short run. Linux alone counts it by thread.

import { readFileSync } from 'node:fs'
import { importBuilt } from '../shared/built.js'
import { numberOption, runProgram, temporaryFolder } from '../shared/program.js'
import { Connections } from '../shared/send.js'
import { endlessApp, startService } from '../shared/service.js'
import { emptyBrotli, emptyGzip, emptyZlib } from './empty-blocks.js'

const LANES = 4
const SIZES = [16_384, 524_288]
/** Of the large ones: each takes a decoder a tenth of a second. */
const FEWER = 10
const NS_PER_MS = 1e6
const TIMEOUT_MS = 30_000
/** Of a try, as src/request/inflate.ts has it. */
const TRY_OUTPUT_BYTES = 64 * 1024 + 1
const TRY_ROUNDS = 20
const TRIES = 100
/** @type {typeof import('../../src/request/zlib.ts')} */
const { decodeNow } = await importBuilt('request/zlib.js')
const connections = new Connections()

/** CPU time of its first thread. @param {number} pid */
function cpuMs(pid) {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[0]) / NS_PER_MS
}

/** @param {{ port: number, pid: number }} service @param {Buffer} body @param {string | null} encoding @param {number} bodies */
async function costOf(service, body, encoding, bodies) {
  /** @type {Record<string, number>} */
  const heard = {}
  let left = bodies
  const before = cpuMs(service.pid)
  const lane = async () => {
    while (left-- > 0) {
      const result = await connections.send({ port: service.port, body, key: null, timeoutMs: TIMEOUT_MS, encoding })
      const what = result.kind === 'answer' ? result.status : result.kind
      heard[what] = (heard[what] ?? 0) + 1
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

/** @param {number} count of small ones */
async function measure(count) {
  const dataDir = temporaryFolder('loop-cost')
  const service = await startService({ dataDir, apps: [endlessApp('ak_one', 'one')] })
  for (const bytes of SIZES) {
    const bodies = bytes > SIZES[0] ? count / FEWER : count
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
  connections.stop()
  return true
}

await runProgram({
  name: 'loop-cost',
  help: 'node load/fuzz/loop-cost.js [--bodies N]',
  options: { bodies: { type: 'string', default: '2000' } },
  run: ({ bodies }) => measure(numberOption('bodies', bodies, FEWER, 1_000_000)),
})
