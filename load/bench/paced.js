// @ts-check
// A load of fixed arrival rates, phase after phase: each request has the moment at which it is due, and its latency
// counts from there, so that a server that stalls cannot hide it by slowing the load down (coordinated omission). Prints one line of JSON.

import { randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { histogramText, percentilesOf } from './percentiles.js'

/** @typedef {{ perSecond: number, seconds: number }} Phase */
/**
 * @typedef {{ port: number, adminPort: number, phases: Phase[], connections: number, keyed: boolean, scrapeEveryMs: number,
 *   bodies: string, count: number, histogram?: string }} Plan
 */
/** Latencies from the moment at which a request was due, and from that at which it was sent. @typedef {{ due: number[], sent: number[] }} Latencies */

const UUID_LENGTH = 36
/** The last header of a request, with a value that is written over each time. */
const KEY_HEADER = `Idempotency-Key: ${randomUUID()}\r\n`
/** For the answers that are still on their way when the last phase is over. */
const LAST_ANSWERS_MS = 5000
const TWO = 50
/** Of the list of free connections, taken ones that are not cut off yet. */
const FREE_KEPT = 10_000

/** @type {Plan} */
const plan = JSON.parse(process.argv[2])
const requests = await prepare(plan)
console.log(JSON.stringify(await pace(plan, requests)))
process.exit(0)

/** @param {Plan} options */
async function prepare({ bodies, count, keyed }) {
  const texts = await Promise.all(Array.from({ length: count }, (_, index) => readFile(`${bodies}/${index + 1}.json`)))
  return texts.map((body) => {
    const head = `POST /api/v1/events HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n${keyed ? KEY_HEADER : ''}\r\n`
    return Buffer.concat([Buffer.from(head), body])
  })
}

/** @param {Buffer} request */
function withFreshKey(request) {
  const copy = Buffer.from(request)
  copy.write(randomUUID(), copy.indexOf('\r\n\r\n') - UUID_LENGTH)
  return copy
}

/** @param {Plan} options @param {Buffer[]} prepared */
async function pace(options, prepared) {
  const records = options.phases.map(() => ({
    due: 0,
    sent: 0,
    accepted: /** @type {Latencies} */ ({ due: [], sent: [] }),
    refused: /** @type {Latencies} */ ({ due: [], sent: [] }),
    lastRefusedMs: 0,
  }))
  const ends = { broken: 0 }
  /** @typedef {{ socket: import('node:net').Socket, record: typeof records[number], dueMs: number, sentMs: number, startMs: number }} Connection */
  /** Connections with nothing under way, by turns: one that nothing comes on for ten seconds is closed. @type {Connection[]} */
  let free = []
  let taken = 0
  const nextFree = () => {
    if (taken === free.length) return undefined
    const connection = free[taken++]
    if (taken === FREE_KEPT) {
      free = free.slice(taken)
      taken = 0
    }
    return connection
  }
  await Promise.all(Array.from({ length: options.connections }, () => open()))

  function open() {
    return new Promise((resolve, reject) => {
      const socket = connect(options.port, '127.0.0.1', () => {
        free.push(connection)
        resolve(undefined)
      })
      /** @type {Connection} */
      const connection = { socket, record: records[0], dueMs: 0, sentMs: 0, startMs: 0 }
      socket.setNoDelay(true)
      socket.once('error', reject)
      socket.once('close', () => {
        ends.broken += 1
      })
      // An answer is a few hundred bytes and comes in one piece.
      socket.on('data', (chunk) => {
        const { record, dueMs, sentMs, startMs } = connection
        const nowMs = performance.now()
        // `HTTP/1.1 202`
        const isAccepted = chunk[9] === TWO
        const latencies = isAccepted ? record.accepted : record.refused
        latencies.due.push(nowMs - dueMs)
        latencies.sent.push(nowMs - sentMs)
        if (!isAccepted) record.lastRefusedMs = nowMs - startMs
        free.push(connection)
      })
    })
  }

  const scraping = options.scrapeEveryMs > 0 ? startScraping(options) : null
  let sent = 0
  for (const [at, { perSecond, seconds }] of options.phases.entries()) {
    const record = records[at]
    const intervalMs = 1000 / perSecond
    const startMs = performance.now()
    record.due = Math.floor(perSecond * seconds)
    for (const endMs = startMs + seconds * 1000; ends.broken === 0; await new Promise(setImmediate)) {
      const nowMs = performance.now()
      const due = Math.min(record.due, Math.floor((nowMs - startMs) / intervalMs) + 1)
      while (record.sent < due) {
        const connection = nextFree()
        if (connection === undefined) break
        connection.record = record
        connection.dueMs = startMs + record.sent * intervalMs
        connection.sentMs = performance.now()
        connection.startMs = startMs
        connection.socket.write(
          options.keyed ? withFreshKey(prepared[sent % prepared.length]) : prepared[sent % prepared.length],
        )
        record.sent += 1
        sent += 1
      }
      if (nowMs >= endMs) break
    }
  }
  const deadlineMs = performance.now() + LAST_ANSWERS_MS
  while (free.length - taken < options.connections && ends.broken === 0 && performance.now() < deadlineMs)
    await new Promise(setImmediate)
  const last = records.at(-1)?.accepted.due ?? []
  if (options.histogram !== undefined) await writeFile(options.histogram, histogramText(last))
  return {
    phases: records.map(({ due, sent, accepted, refused, lastRefusedMs }, at) => ({
      seconds: options.phases[at].seconds,
      /** Were due and not sent: every connection was waiting for an answer. */
      unsent: due - sent,
      accepted: summaryOf(accepted),
      refused: summaryOf(refused),
      /** After the phase began; 0: never. */
      lastRefusedMs,
    })),
    unanswered: options.connections - (free.length - taken),
    broken: ends.broken,
    scrapes: scraping?.stop() ?? 0,
  }
}

/** @param {Latencies} latencies */
function summaryOf({ due, sent }) {
  return { count: due.length, fromDueMs: percentilesOf(due), fromSentMs: percentilesOf(sent) }
}

/** Asks for the metrics page over one connection that stays open. @param {Plan} options */
function startScraping({ adminPort, scrapeEveryMs }) {
  const socket = connect(adminPort, '127.0.0.1')
  let scrapes = 0
  const timer = setInterval(() => {
    socket.write('GET /metrics HTTP/1.1\r\nHost: bench\r\n\r\n')
    scrapes += 1
  }, scrapeEveryMs)
  socket.resume()
  return {
    stop: () => {
      clearInterval(timer)
      return scrapes
    },
  }
}
