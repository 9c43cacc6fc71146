// Connections that send half of a large body and stop, or go on just fast enough not to count as slow, again and again:
// honest bodies in several pieces, and slow ones, get in beside them.

import { connect, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { bodyOfSize } from '../support/client.ts'
import { expectUnharmed, hostileService, readPage } from '../support/hostile.ts'
import { head, openRaw } from '../support/raw-http.ts'
import { eventually, sleep } from '../support/service.ts'

const hostile = hostileService()
const JSON_TYPE = 'Content-Type: application/json'
const LEAST_ACCEPTED = 0.9
const EACH_MS = 490
/** A body that brings no page for 100 ms has stalled. */
const PAGE = { bytes: ' '.repeat(8192), eachMs: 95 }

/** Sends the head and half of a body, waits, resets, and comes back. */
class Halves {
  sent = 0
  readonly #over = new AbortController()
  readonly #port: number
  readonly #first: Buffer
  /** Sent after it, one by one. */
  readonly #morePages: number
  readonly #clients: Promise<void>[]

  constructor(port: number, connections: number, bytes: number, morePages: number) {
    this.#port = port
    this.#morePages = morePages
    this.#first = Buffer.from(head([JSON_TYPE, `Content-Length: ${bytes}`]) + ' '.repeat(bytes / 2))
    this.#clients = Array.from({ length: connections }, (_, at) => this.#client((at * EACH_MS) / connections))
  }

  async #client(delayMs: number): Promise<void> {
    await sleep(delayMs)
    while (!this.#over.signal.aborted) {
      const socket: Socket = connect(this.#port, '127.0.0.1')
      socket.on('error', () => {})
      socket.resume()
      socket.write(this.#first, () => (this.sent += 1))
      for (let page = 0; page < this.#morePages; page++) {
        await sleep(PAGE.eachMs)
        socket.write(PAGE.bytes)
      }
      await sleep(this.#morePages > 0 ? PAGE.eachMs : EACH_MS)
      socket.destroy()
    }
  }

  async stop(): Promise<void> {
    this.#over.abort()
    await Promise.all(this.#clients)
  }
}

/** Whether a body that comes in so many pieces is accepted. */
async function sends(body: string, pieces: number, gapMs: number): Promise<boolean> {
  const raw = await openRaw(hostile.service.port)
  try {
    raw.write(head([JSON_TYPE, `Content-Length: ${body.length}`]))
    const size = Math.ceil(body.length / pieces)
    for (let at = 0; at < body.length; at += size) {
      if (at > 0) await sleep(gapMs)
      raw.write(body.slice(at, at + size))
    }
    return (await raw.readAnswer())?.status === 202
  } finally {
    raw.close()
  }
}

async function share(count: number, attempt: () => Promise<boolean>): Promise<number> {
  const lanes = Array.from({ length: 4 }, async () => {
    let accepted = 0
    for (let round = 0; round < count / 4; round++) if (await attempt()) accepted += 1
    return accepted
  })
  const accepted = await Promise.all(lanes)
  return accepted.reduce((sum, lane) => sum + lane, 0) / count
}

test.for([
  [36, 524_288, 0],
  [300, 65_536, 0],
  [300, 65_536, 3],
] as const)('%i connections that send half of %i bytes, and %i pages more', async ([connections, bytes, morePages]) => {
  const { port } = hostile.service
  const halves = new Halves(port, connections, bytes, morePages)
  try {
    await eventually('all have sent', () => halves.sent >= connections)
    const pieces = bodyOfSize('ak_honest', 60_000)
    const slow = bodyOfSize('ak_honest', 20_000)
    // Of bodies that are as large and not slow, those that came first stay.
    if (morePages === 0) {
      expect(await share(80, () => sends(pieces, 4, 5)), '60 KB in four pieces').toBeGreaterThanOrEqual(LEAST_ACCEPTED)
    }
    expect(await share(24, () => sends(slow, 5, 125)), '20 KB over 0.5 s').toBeGreaterThanOrEqual(LEAST_ACCEPTED)
  } finally {
    await halves.stop()
  }
  await eventually('nothing is left', async () => (await readPage(hostile.service))['sluice_requests_in_flight'] === 0)
  await expectUnharmed(hostile.service)
})
