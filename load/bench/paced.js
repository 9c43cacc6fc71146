// @ts-check
// A load of a fixed arrival rate: each request has the moment at which it is due, and its latency counts from there,
// so that a server that stalls cannot hide it by slowing the load down. Prints one line of JSON.

import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'

/**
 * @typedef {{ port: number, adminPort: number, perSecond: number, seconds: number, warmupSeconds: number,
 *   scrapeEveryMs: number, bodies: string, count: number }} Plan
 */

const CONNECTIONS = 128

/** @type {Plan} */
const plan = JSON.parse(process.argv[2])
const requests = await prepare(plan)
console.log(JSON.stringify(await pace(plan, requests)))
process.exit(0)

/** @param {Plan} options */
async function prepare({ bodies, count }) {
  const texts = await Promise.all(Array.from({ length: count }, (_, index) => readFile(`${bodies}/${index + 1}.json`)))
  return texts.map((body) => {
    const head = `POST /api/v1/events HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`
    return Buffer.concat([Buffer.from(head), body])
  })
}

/** @param {Plan} options @param {Buffer[]} prepared */
async function pace(options, prepared) {
  const total = Math.floor(options.perSecond * (options.seconds + options.warmupSeconds))
  const warmup = Math.floor(options.perSecond * options.warmupSeconds)
  const intervalMs = 1000 / options.perSecond
  const latencyMs = new Float64Array(total)
  const counts = { sent: 0, answered: 0, refused: 0, broken: 0 }

  /** Connections with nothing under way. @type {import('node:net').Socket[]} */
  const free = []
  await Promise.all(Array.from({ length: CONNECTIONS }, () => open()))

  function open() {
    return new Promise((resolve, reject) => {
      const socket = connect(options.port, '127.0.0.1', () => {
        free.push(socket)
        resolve(undefined)
      })
      socket.setNoDelay(true)
      socket.once('error', reject)
      socket.once('close', () => {
        counts.broken += 1
      })
      // An answer is a few hundred bytes and comes in one piece.
      socket.on('data', (chunk) => {
        const index = underWay.get(socket) ?? 0
        latencyMs[index] = performance.now() - (startMs + index * intervalMs)
        if (chunk.toString('latin1', 9, 12) !== '202') counts.refused += 1
        counts.answered += 1
        free.push(socket)
      })
    })
  }

  /** @type {Map<import('node:net').Socket, number>} */
  const underWay = new Map()
  const scraping = options.scrapeEveryMs > 0 ? startScraping(options) : null
  const startMs = performance.now()
  const deadlineMs = startMs + total * intervalMs + 5000
  while (counts.answered < total && counts.broken === 0 && performance.now() < deadlineMs) {
    const due = Math.min(total, Math.floor((performance.now() - startMs) / intervalMs) + 1)
    while (counts.sent < due) {
      const socket = free.pop()
      if (socket === undefined) break
      underWay.set(socket, counts.sent)
      socket.write(prepared[counts.sent % prepared.length])
      counts.sent += 1
    }
    await new Promise(setImmediate)
  }
  const elapsedMs = performance.now() - startMs
  const measured = latencyMs.subarray(warmup, Math.max(warmup, counts.sent)).sort()
  const at = (/** @type {number} */ share) =>
    measured[Math.min(measured.length - 1, Math.floor(measured.length * share))]
  return {
    perSecond: counts.answered / (elapsedMs / 1000),
    unanswered: total - counts.answered,
    refused: counts.refused,
    broken: counts.broken,
    scrapes: scraping?.stop() ?? 0,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    p999Ms: at(0.999),
    maxMs: at(1),
  }
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
