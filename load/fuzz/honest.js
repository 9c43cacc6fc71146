// @ts-check
// Honest clients beside the fuzzer, in a thread of their own so that what they measure is the service: keyed and
// unkeyed batches and repeats, one after the other on connections that stay open.

import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'

const LANES = 6
const PAUSE_MS = 15
const ANSWER_TIMEOUT_MS = 15_000
const MAX_FAULTS = 20

/** @typedef {{ port: number, appKey: string }} HonestData */
/** What it says in the end: how many batches each lane had accepted, and what they took. @typedef {{ accepted: number[], tookMs: Float64Array, faults: string[] }} HonestReport */

const { port, appKey } = /** @type {HonestData} */ (workerData)
const agent = new Agent({ keepAlive: true, maxSockets: LANES })
/** @type {number[]} */
const tookMs = []
/** @type {string[]} */
const faults = []
const stop = new AbortController()
parentPort?.once('message', () => stop.abort())

const accepted = await Promise.all(Array.from({ length: LANES }, (_, lane) => sendInTurn(lane)))
agent.destroy()
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
  const answer = await send(body, key).catch((/** @type {Error} */ error) => error.message)
  tookMs.push(performance.now() - startedAtMs)
  const right = `202 {"status":"accepted","events":1${isRepeat ? ',"deduplicated":true' : ''}}`
  if (answer !== right) faults.push(`an honest ${isRepeat ? 'repeat' : 'batch'} heard ${answer}`)
}

/** @param {string} body @param {string | null} key @returns {Promise<string>} */
function send(body, key) {
  return new Promise((resolve, reject) => {
    const headers = {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(body),
      ...(key === null ? {} : { 'Idempotency-Key': key }),
    }
    const outgoing = request({
      host: '127.0.0.1',
      port,
      method: 'POST',
      path: '/api/v1/events',
      headers,
      agent,
      timeout: ANSWER_TIMEOUT_MS,
    })
    outgoing.on('response', (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (/** @type {string} */ piece) => (text += piece))
      response.on('end', () => resolve(`${response.statusCode} ${text}`))
      response.on('error', reject)
    })
    outgoing.on('timeout', () => outgoing.destroy(new Error(`nothing in ${ANSWER_TIMEOUT_MS} ms`)))
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}

/** @param {string} name */
function bodyOf(name) {
  return JSON.stringify({
    app_key: appKey,
    events: [
      {
        type: 'track',
        name,
        hashed_daily_id: 'd'.repeat(32),
        hashed_monthly_id: 'm'.repeat(32),
        session_id: '7f0e0bb2-6c3a-4d5e-9a53-2a6a4d1c9a10',
        timestamp: new Date().toISOString(),
        context: { os: 'ios' },
      },
    ],
  })
}
