// @ts-check
// Honest clients beside the fuzzer, in a thread of their own so that what they measure is the service: keyed and
// unkeyed batches and repeats, one after the other on connections that stay open.

import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { uniformBody } from '../payloads.js'
import { Connections } from '../shared/send.js'

const LANES = 6
const PAUSE_MS = 15
const ANSWER_TIMEOUT_MS = 15_000
const MAX_FAULTS = 20

/** @typedef {{ port: number, appKey: string }} HonestData */
/** What it says in the end: how many batches each lane had accepted, and what they took. @typedef {{ accepted: number[], tookMs: Float64Array, faults: string[] }} HonestReport */

const { port, appKey } = /** @type {HonestData} */ (workerData)
const connections = new Connections()
/** @type {number[]} */
const tookMs = []
/** @type {string[]} */
const faults = []
const stop = new AbortController()
parentPort?.once('message', () => stop.abort())

const accepted = await Promise.all(Array.from({ length: LANES }, (_, lane) => sendInTurn(lane)))
connections.stop()
/** @type {HonestReport} */
const report = { accepted, tookMs: Float64Array.from(tookMs), faults }
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is for windows
parentPort?.postMessage(report)

/** @param {number} lane */
async function sendInTurn(lane) {
  let batches = 0
  while (!stop.signal.aborted && faults.length < MAX_FAULTS) {
    const body = bodyOf(`${lane}-${batches}`)
    const key = batches % 2 === 0 ? null : randomUUID()
    await expectAnswer(body, key, false)
    batches++
    if (key !== null && batches % 4 === 0) await expectAnswer(body, key, true)
    await sleep(PAUSE_MS)
  }
  return batches
}

/** @param {string} body @param {string | null} key @param {boolean} isRepeat */
async function expectAnswer(body, key, isRepeat) {
  const startedAtMs = performance.now()
  const result = await connections.send({ port, body: Buffer.from(body), key, timeoutMs: ANSWER_TIMEOUT_MS })
  tookMs.push(performance.now() - startedAtMs)
  const answer = result.kind === 'answer' ? `${result.status} ${result.text}` : JSON.stringify(result)
  const right = `202 {"status":"accepted","events":1${isRepeat ? ',"deduplicated":true' : ''}}`
  if (answer !== right) faults.push(`an honest ${isRepeat ? 'repeat' : 'batch'} heard ${answer}`)
}

/** @param {string} name */
function bodyOf(name) {
  const { events, ...rest } = JSON.parse(uniformBody({ rng: Math.random, appKey, events: 1, nowMs: Date.now() }))
  return JSON.stringify({ ...rest, events: [{ ...events[0], name }] })
}
