// In a pod: node sender.js URL APP_KEY SECONDS RATE. Sends batches under keys of their own at a steady rate, each until it is answered
// 202, as an SDK does. Writes a line of JSON for each batch, `{"key","status"}`, and last one with what happened.

import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'

const [url, appKey, seconds, rate] = process.argv.slice(2)
/** Every fifth request comes on a connection of its own: what a balancer sends to a pod that goes is seen there first. */
const FRESH_SHARE = 0.2
const ANSWER_MS = 8000
const GIVE_UP_MS = 180_000
const LARGEST_PAUSE_MS = 1000
const MOST_OPEN = 2000
const kept = new Agent({ keepAlive: true, maxSockets: 48 })

const refusals = new Map()
const errors = new Map()
const secondsOf202 = new Set()
const count = (map, what) => map.set(what, (map.get(what) ?? 0) + 1)
const pause = (ms) => new Promise((done) => setTimeout(done, ms))

/** One try: its status, or the name of what broke. */
function post(key, body) {
  return new Promise((done) => {
    const agent = Math.random() < FRESH_SHARE ? new Agent() : kept
    const headers = {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(body),
      'Idempotency-Key': key,
    }
    const sent = request(url, { method: 'POST', agent, headers, timeout: ANSWER_MS }, (answer) => {
      answer.resume()
      answer.on('error', (error) => done({ broke: error.code }))
      answer.on('end', () =>
        done({ status: answer.statusCode, waitSeconds: Number(answer.headers['retry-after'] ?? 0) }),
      )
    })
    sent.on('timeout', () =>
      sent.destroy(Object.assign(new Error('no answer'), { code: `NO_ANSWER_IN_${ANSWER_MS}_MS` })),
    )
    sent.on('error', (error) => done({ broke: error.code ?? error.message }))
    sent.end(body)
  })
}

async function deliver() {
  const key = randomUUID()
  const startedAtMs = performance.now()
  const event = {
    type: 'track',
    name: 'tried',
    hashed_daily_id: 'try-daily-0123456789',
    hashed_monthly_id: 'try-monthly-0123456789',
    session_id: key,
    timestamp: new Date().toISOString(),
    context: { os: 'server' },
  }
  const body = JSON.stringify({ app_key: appKey, events: [event] })
  while (performance.now() - startedAtMs < GIVE_UP_MS) {
    const { status, broke, waitSeconds = 0 } = await post(key, body)
    if (status === 202) {
      secondsOf202.add(Math.floor(Date.now() / 1000))
      return { key, status }
    }
    if (broke === undefined) count(refusals, status)
    else count(errors, broke)
    if (status !== undefined && status < 500 && status !== 429) return { key, status }
    await pause(Math.min(waitSeconds * 1000, LARGEST_PAUSE_MS) * (0.5 + Math.random()) + 100)
  }
  return { key, status: 0 }
}

async function deliverAndTell() {
  console.log(JSON.stringify(await deliver()))
}

const startedAtMs = performance.now()
const open = new Set()
let sent = 0
while (performance.now() - startedAtMs < seconds * 1000) {
  const due = ((performance.now() - startedAtMs) / 1000) * rate
  while (sent < due && open.size < MOST_OPEN) {
    sent++
    const delivery = deliverAndTell().finally(() => open.delete(delivery))
    open.add(delivery)
  }
  await pause(5)
}
await Promise.all(open)
const times = [...secondsOf202].toSorted((one, other) => one - other)
const gapSeconds = Math.max(0, ...times.slice(1).map((second, at) => second - times[at]))
console.log(
  JSON.stringify({ sent, refusals: Object.fromEntries(refusals), errors: Object.fromEntries(errors), gapSeconds }),
)
kept.destroy()
