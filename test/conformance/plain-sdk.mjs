// An SDK as small as one can be that keeps every promise, with its driver; and, with the name of a fault, one that breaks one of
// them: node plain-sdk.mjs [FAULT]

import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { gzipSync } from 'node:zlib'

const { SLUICE_URL, SLUICE_APP_KEY: app_key, SLUICE_FOLDER = '.' } = process.env
const FILE = join(SLUICE_FOLDER, 'state.json')
const fault = process.argv[2] ?? ''
const has = (name) => fault === name
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)
const MAX_EVENTS = has('too many events in a batch') ? 1000 : 100
const MAX_BYTES = has('too many bytes in a batch') ? Infinity : 400_000
const HOUR_MS = 3_600_000
const TOLERANCE_MS = has('corrects a clock that is right enough') ? 0 : 300_000
const ONE_KEY = randomUUID()

let aheadMs = 0
const nowMs = () => Date.now() + aheadMs

function createSdk() {
  const kept = existsSync(FILE) && !has('forgets what waits at a restart') ? JSON.parse(readFileSync(FILE, 'utf8')) : {}
  const state = { batches: [], report: {}, offMs: 0, waitUntilMs: 0, isOut: false, ...kept }
  if (has('forgets the opt-out at a restart')) state.isOut = false
  if (has('forgets Retry-After at a restart')) state.waitUntilMs = 0
  let open = []
  let failures = 0
  let retryAtMs = 0
  let timer = null
  let isRunning = false
  let isEnded = false
  const keep = () => writeFileSync(FILE, JSON.stringify(state))

  function drop(reason, events) {
    if (events.length === 0) return
    const said = has('reports a wrong reason') ? 'expired' : reason
    if (!has('never sends its report')) state.report[reason] = (state.report[reason] ?? 0) + events.length
    if (!has('drops without a report')) say({ dropped: events.map(({ name }) => name), reason: said })
  }

  function correct(event) {
    if (state.offMs === 0 || has('never learns the clock')) return event
    const said = event.client_timestamp ?? event.timestamp
    const timestamp = new Date(Date.parse(said) + state.offMs).toISOString()
    return { ...event, timestamp, client_timestamp: said, clock_correction_ms: state.offMs }
  }

  function batchOf(events, key = randomUUID()) {
    const report = Object.keys(state.report).length > 0 ? { client_report: { dropped: state.report } } : {}
    state.report = {}
    const body = JSON.stringify({ app_key, ...report, events })
    return { key: has('one key for all batches') ? ONE_KEY : key, body, atMs: nowMs() }
  }

  function seal() {
    while (open.length > 0) {
      let bytes = 0
      const past = open.findIndex((event) => (bytes += JSON.stringify(event).length * 2) > MAX_BYTES)
      state.batches.push(batchOf(open.splice(0, Math.min(past > 0 ? past : open.length, MAX_EVENTS)).map(correct)))
    }
    keep()
  }

  function learn(date, sentMs) {
    const tookMs = nowMs() - sentMs
    const offMs = Date.parse(date) - sentMs - tookMs / 2
    const isTaken = has('learns a clock from what half of the time explains') && tookMs < 60_000
    const marginMs = has('learns a clock from a slow answer') || isTaken ? 0 : tookMs / 2
    if (Math.abs(offMs) > TOLERANCE_MS + marginMs) state.offMs = Math.round(offMs)
    else if (Math.abs(offMs) + marginMs < TOLERANCE_MS) state.offMs = 0
  }

  async function post({ key, body }) {
    const sentMs = nowMs()
    const text = has('changes the bytes of a retry')
      ? body.replace(/"timestamp":"/g, `"sent_at":${sentMs},"timestamp":"`)
      : body
    const fresh = has('a new event_id at each try')
      ? text.replace(/"event_id":"[^"]+"/g, () => `"event_id":"${randomUUID()}"`)
      : text
    const packed = fresh.length > 1000 && !has('never compresses')
    const headers = { 'Content-Type': 'application/json', ...(packed && { 'Content-Encoding': 'gzip' }) }
    const patienceMs = has('does not wait for an answer') ? 3000 : 30_000
    const patience = new AbortController()
    const timer = setTimeout(() => patience.abort(), patienceMs)
    try {
      const response = await fetch(`${SLUICE_URL}/api/v1/events`, {
        method: 'POST',
        headers: { ...headers, 'Idempotency-Key': has('another key at a retry') ? randomUUID() : key },
        body: packed ? gzipSync(fresh) : fresh,
        signal: patience.signal,
      })
      if (has('waits for ever for what drips')) clearTimeout(timer)
      learn(response.headers.get('Date'), sentMs)
      return { status: response.status, headers: response.headers, text: await response.text() }
    } catch {
      return { status: 0, headers: new Headers(), text: '' }
    } finally {
      clearTimeout(timer)
    }
  }

  /** What takes the batch's place; null where it stays. */
  function judge(batch, { status, headers, text }) {
    const { events } = JSON.parse(batch.body)
    let refusal = {}
    try {
      refusal = JSON.parse(text)
    } catch {}
    const all = (reason) => ({ parts: [], reason, dropped: events })
    const half = Math.ceil(events.length / 2)
    const halves = { parts: [events.slice(0, half), events.slice(half)], dropped: [] }
    const isOther = headers.get('Sluice-Replay') === 'other' && !has('takes every replay for stored')
    if (status === 202) return isOther ? all('key_reused') : { parts: [], dropped: [] }
    if (status === 200 && has('takes 200 for stored')) return { parts: [], dropped: [] }
    if (status === 400) {
      const { invalid_events: named, errors } = refusal
      const places = has('goes by errors alone') ? errors?.flatMap(({ event = [] }) => event) : named
      if (places === undefined || has('drops the whole batch')) return all('invalid')
      const dropped = places.map((place) => events[place])
      return { parts: [events.filter((event) => !dropped.includes(event)).map(correct)], reason: 'invalid', dropped }
    }
    const isHeld = refusal.reason === 'origin' && !has('drops what a page may not send')
    if (status === 401 && !isHeld) return all('unauthorized')
    if (status === 402) return all('subscription')
    if (status === 403) return all('blocked')
    if (status === 413) return events.length > 1 && !has('drops at 413') ? halves : all('too_large')
    if (status === 429 && has('gives up at 429')) return all('refused')
    if (status === 429 && events.length > Number(headers.get('X-RateLimit-Limit'))) return halves
    if (status === 503 && has('gives up at 503')) return all('refused')
    if (status >= 400 && status < 500 && ![401, 408, 429].includes(status)) return all('refused')
    return null
  }

  function fail(headers) {
    const isAtOnce = has('retries at once') || has('takes a 429 for over without seconds to wait')
    const backoffMs = isAtOnce ? 0 : 3000 * 2 ** failures * (1 - Math.random() / 2)
    failures = (failures + 1) % 10
    const seconds = has('ignores Retry-After') ? 0 : Math.min(Number(headers.get('Retry-After') ?? 0), 86_400)
    retryAtMs = performance.now() + backoffMs
    if (has('stops after a failure')) retryAtMs = Infinity
    state.waitUntilMs = seconds > 0 ? nowMs() + seconds * 1000 : state.waitUntilMs
  }

  async function run() {
    clearTimeout(timer)
    if (isRunning || isEnded) return
    isRunning = true
    for (let batch = state.batches[0]; batch !== undefined; batch = state.batches[0]) {
      if (isEnded || (state.isOut && !has('sends after an opt-out'))) break
      const waitMs = Math.max(retryAtMs - performance.now(), state.waitUntilMs - nowMs())
      if (waitMs > 0) {
        if (waitMs < Infinity) timer = setTimeout(run, waitMs + 1)
        break
      }
      await send(batch)
    }
    isRunning = false
  }

  async function send(batch) {
    const isOld = nowMs() - batch.atMs > 72 * HOUR_MS && !has('never expires')
    const answer = isOld ? null : await post(batch)
    if (isEnded || state.batches[0] !== batch) return
    const verdict =
      answer === null ? { parts: [], reason: 'expired', dropped: JSON.parse(batch.body).events } : judge(batch, answer)
    if (verdict === null) fail(answer.headers)
    else {
      // A second time, as if it had not been refused.
      if (has('sends what was refused again') && verdict.reason === 'unauthorized') await post(batch)
      if (has('sends what is stored again')) await post({ ...batch, key: randomUUID() })
      failures = 0
      state.batches.shift()
      const key = has('halves keep the key') ? batch.key : undefined
      state.batches.unshift(...verdict.parts.filter((part) => part.length > 0).map((part) => batchOf(part, key)))
      drop(verdict.reason, verdict.dropped)
    }
    keep()
  }

  void run()
  return {
    track(name, properties) {
      const monthly = has('leaves out the monthly id') ? {} : { hashed_monthly_id: 'm'.repeat(32) }
      const ids = { hashed_daily_id: 'd'.repeat(32), ...monthly, session_id: 's' }
      const timestamp = new Date(nowMs()).toISOString()
      const event = {
        event_id: randomUUID(),
        type: 'track',
        name,
        ...ids,
        timestamp,
        context: { os: 'test' },
        properties,
      }
      if (state.isOut && !has('takes events after an opt-out')) return drop('consent', [event])
      open.push(event)
      timer ??= setTimeout(() => (seal(), run()), 1000)
    },
    flush() {
      seal()
      retryAtMs = 0
      if (has('a flush hurries Retry-After')) state.waitUntilMs = 0
      void run()
    },
    optOut() {
      state.isOut = true
      if (!has('sends after an opt-out'))
        drop(
          'consent',
          state.batches.splice(0).flatMap(({ body }) => JSON.parse(body).events),
        )
      drop('consent', open.splice(0))
      if (has('takes events after an opt-out')) state.isOut = false
      keep()
    },
    optIn() {
      state.isOut = false
      keep()
    },
    end() {
      isEnded = true
      clearTimeout(timer)
    },
  }
}

const CAPABILITIES = ['storage', 'opt_out', 'clock', 'compression']
let sdk = createSdk()
const COMMANDS = {
  track: ({ name, properties }) => sdk.track(name, properties),
  flush: () => sdk.flush(),
  opt_out: () => sdk.optOut(),
  opt_in: () => sdk.optIn(),
  clock: ({ ahead_ms }) => void (aheadMs = ahead_ms),
  close: () => sdk.end(),
  restart() {
    sdk.end()
    sdk = createSdk()
  },
}
say(has('says no version') ? { sdk: 'plain' } : { version: 1, sdk: 'plain', capabilities: CAPABILITIES })
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  if (has('never ends a line')) for (;;) await new Promise((wrote) => process.stdout.write('x'.repeat(100_000), wrote))
  if (has('drops what is no text')) say({ dropped: [{ toString: 1 }], reason: 'invalid' })
  if (has('has a reason of every object') && command.command === 'track')
    say({ dropped: [command.name], reason: 'constructor' })
  if (has('writes nonsense')) process.stdout.write('sent 5 events\n')
  if (has('dies') && command.command === 'flush') process.exit(3)
  COMMANDS[command.command](command)
  say({ done: has('answers another command') ? 'close' : command.command })
}
process.exit(0)
