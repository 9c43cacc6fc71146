// Clients that hold every place of the admin port without a request: probes, scrapes and watchers are served beside them.

import { connect, type Socket } from 'node:net'
import { test as base, expect } from 'vitest'
import { get, post, single } from '../support/client.ts'
import { openEventStream } from '../support/event-stream.ts'
import { aService } from '../support/fixture.ts'
import { expectClosed } from '../support/hostile.ts'
import { openRaw } from '../support/raw-http.ts'
import { appRecord, eventually, type Service } from '../support/service.ts'

/** More than the port has places. */
const HOLDERS = 140
const ROUNDS = 20
const PROBED = ['/livez', '/readyz', '/metrics']
const LEAST_ANSWERED = 0.9

const test = base.extend('service', { scope: 'file' }, aService({ apps: [appRecord('shop')] }))

const HALF_A_HEAD = 'GET /livez HTTP/1.1\r\nHost: local'
const HALF_A_BODY = 'POST /api/explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{'

/** Each connection comes back at once when it is closed. */
class Holders {
  opened = 0
  readonly #sockets = new Set<Socket>()
  readonly #port: number
  readonly #text: string
  #isOver = false

  constructor(port: number, text: string) {
    this.#port = port
    this.#text = text
    for (let count = 0; count < HOLDERS; count++) this.#open()
  }

  #open(): void {
    if (this.#isOver) return
    const socket = connect(this.#port, '127.0.0.1', () => {
      this.opened += 1
      socket.write(this.#text)
    })
    this.#sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => {
      this.#sockets.delete(socket)
      this.#open()
    })
    socket.resume()
  }

  stop(): void {
    this.#isOver = true
    for (const socket of this.#sockets) socket.destroy()
  }
}

/** The share of the probes that were answered. */
async function probe({ adminPort }: Service): Promise<number> {
  let answered = 0
  for (let round = 0; round < ROUNDS; round++) {
    for (const path of PROBED) {
      const status = await get(adminPort, path).then(
        (answer) => answer.status,
        () => null,
      )
      if (status === 200) answered += 1
    }
  }
  return answered / (ROUNDS * PROBED.length)
}

test.for([
  ['half a head', HALF_A_HEAD],
  ['half a body', HALF_A_BODY],
  ['nothing', ''],
] as const)(
  '140 connections that send %s and come back at once: probes are answered',
  async ([, text], { service }) => {
    const holders = new Holders(service.adminPort, text)
    try {
      await eventually('all places are taken', () => holders.opened >= HOLDERS)
      expect(await probe(service)).toBeGreaterThanOrEqual(LEAST_ANSWERED)
    } finally {
      holders.stop()
    }
  },
)

test('a watcher keeps its stream meanwhile', async ({ service }) => {
  const stream = await openEventStream(service.adminPort, '/api/events/stream')
  const holders = new Holders(service.adminPort, HALF_A_HEAD)
  try {
    await eventually('each was closed and came back', () => holders.opened >= 10 * HOLDERS)
    await eventually('the watcher sees an event', async () => {
      await post(service, single('ak_shop'))
      return stream.events.some(({ event }) => event === 'event')
    })
    expect(stream.isEnded).toBe(false)
  } finally {
    holders.stop()
    stream.close()
  }
})

test.for([
  ['half a head', HALF_A_HEAD],
  ['nothing', ''],
] as const)('a connection that sends %s is closed by itself', async ([, text], { service }) => {
  const raw = await openRaw(service.adminPort)
  raw.write(text)
  await expectClosed(raw)
})
