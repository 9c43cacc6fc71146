// The pool's threads as built, over a real ring: each body comes back once, with its own verdict, round and round the
// ring, and a run that fails takes nothing else with it.

import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, expect, test, vi } from 'vitest'
import type { Validation } from '../../src/decode/verdict.ts'
import { eventsIn } from '../../src/ring/decoded-body.ts'
import { Ring } from '../../src/ring/ring.ts'
import { event } from '../support/client.ts'

type Pool = import('../../src/decode/pool.ts').DecodePool

/** Where a thread finds its code beside the pool's. */
const BUILT = pathToFileURL(resolve(import.meta.dirname, '../../dist/decode/pool.js')).href
const BYTES_PER_SLOT = 4096
const LONGEST_RUN = 64
/** A hundred kilobytes of JSON that do not fit. */
const LONG = `{"app_key":"ak_1","a":[${'[],'.repeat(34_000)}1],"events":1}`

/** good and bad get a verdict, and so does long, which is bad and takes the slow thread milliseconds; one that was never handed over makes the thread that reads it fail. */
type Body = 'good' | 'bad' | 'long' | 'torn away'

interface Back {
  readonly body: Body
  readonly failed: boolean
  /** It was sent away, since too much waited. */
  readonly busy?: boolean
}

class Line {
  readonly ring: Ring
  readonly back: Back[] = []
  readonly faults = new Set<unknown>()
  readonly wrong: string[] = []
  /** Whose takers throw: bodies by the order in which they were sent. */
  readonly broken = new Set<number>()
  readonly #inSlot = new Map<number, { body: Body; events: number; at: number }>()
  #pool: Pool | null = null
  sent = 0
  busy = 0

  constructor(slots: number) {
    this.ring = new Ring(slots * BYTES_PER_SLOT)
  }

  async start(threads: number): Promise<void> {
    const { DecodePool } = (await import(BUILT)) as typeof import('../../src/decode/pool.ts')
    this.#pool = new DecodePool({
      memory: this.ring.memory,
      slots: this.ring.slots,
      threads,
      decoder: 'scanner',
      onDecoded: (slot, validation) => this.#decoded(slot, validation),
      onFailure: (slot, error) => this.#failed(slot, error),
      onBusy: (slot) => this.#busy(slot),
    })
    await this.#pool.start()
  }

  get pool(): Pool {
    if (this.#pool === null) throw new Error('start comes first')
    return this.#pool
  }

  send(body: Body): void {
    const events = this.sent++ % 4
    const list = Array.from({ length: events }, () => event())
    const good = JSON.stringify({ app_key: 'ak_1', events: list })
    const bytes = Buffer.from(body === 'long' ? LONG : body === 'bad' ? '{' : good)
    const slot = this.ring.claim(bytes.length)
    if (slot < 0) throw new Error('the test sent more than the ring holds')
    this.ring.fill(slot, [bytes])
    if (body !== 'torn away') this.ring.commit(slot)
    this.#inSlot.set(slot, { body, events, at: this.sent - 1 })
    this.pool.submit(slot)
  }

  #decoded(slot: number, validation: Validation | null): void {
    if (this.broken.delete(this.#inSlot.get(slot)?.at ?? -1)) throw new Error('the taker broke')
    const { body, events } = this.#leave(slot)
    const verdict = validation?.kind ?? `${eventsIn(this.ring, slot).track} events`
    const due = body === 'bad' || body === 'long' ? 'refused' : `${events} events`
    if (verdict !== due) this.wrong.push(`slot ${slot}: ${verdict} in place of ${due}`)
    this.ring.release(slot)
    this.back.push({ body, failed: false })
  }

  #failed(slot: number, error: unknown): void {
    const { body } = this.#leave(slot)
    // Nobody handed it over, and it can only be released by whoever did.
    if (body === 'torn away') this.ring.commit(slot)
    this.ring.release(slot)
    this.faults.add(error)
    this.back.push({ body, failed: true })
  }

  #busy(slot: number): void {
    const { body } = this.#leave(slot)
    if (body === 'good') this.wrong.push(`slot ${slot}: a good body had to wait to be explained`)
    this.ring.release(slot)
    this.busy++
    this.back.push({ body, failed: false, busy: true })
  }

  #leave(slot: number): { body: Body; events: number } {
    const found = this.#inSlot.get(slot)
    if (found === undefined) throw new Error(`slot ${slot} came back, and nobody had sent it`)
    this.#inSlot.delete(slot)
    return found
  }
}

/** Everything that was sent comes back, with the verdict it should have, and nothing is left in hand. */
async function expectSettled({ back, sent, pool, ring, wrong }: Line): Promise<void> {
  await vi.waitFor(() => expect(back.length).toBe(sent), { timeout: 10_000, interval: 1 })
  expect(wrong).toEqual([])
  expect([pool.waiting, ring.requests, ring.usedBytes]).toEqual([0, 0, 0])
}

let line: Line

afterEach(() => line.pool.stop())

test('every body comes back once with its own verdict, many times round the ring', async () => {
  line = new Line(64)
  await line.start(2)
  for (let round = 0; round < 60; round++) {
    for (let n = (round * 7) % 60; n >= 0; n--) line.send((round + n) % 3 === 0 ? 'bad' : 'good')
    await expectSettled(line)
  }
  expect(line.back.length).toBeGreaterThan(20 * line.ring.slots)
  expect(line.back.filter(({ failed }) => failed)).toEqual([])
})

test('a run that fails is told of for each of its slots, and the runs after it are served', async () => {
  line = new Line(64)
  await line.start(2)
  for (let round = 0; round < 60; round++) {
    const torn = round % 2 === 0 ? round % 23 : -1
    for (let n = 0; n < 23; n++) line.send(n === torn ? 'torn away' : 'good')
    await expectSettled(line)
    const back = line.back.splice(0)
    line.sent = 0
    // The 23 go as four runs, of which one fails.
    const failed = back.filter((one) => one.failed).length
    expect(failed).toBeGreaterThanOrEqual(torn < 0 ? 0 : 1)
    expect(failed).toBeLessThanOrEqual(torn < 0 ? 0 : 6)
    expect(back.filter((one) => one.body === 'torn away' && !one.failed)).toEqual([])
  }
  expect(line.faults.size).toBe(30)
  expect(String([...line.faults][0])).toContain('was submitted before its body was committed')
})

test('a body whose taker throws comes back as failed, and those behind it in its run come back', async () => {
  line = new Line(256)
  await line.start(1)
  line.broken.add(3)
  for (let n = 0; n < 10; n++) line.send('good')
  const { back, faults } = line
  await vi.waitFor(() => expect(back).toHaveLength(10))
  expect(back.filter(({ failed }) => failed)).toHaveLength(1)
  expect([...faults].map(String)).toEqual(['Error: the taker broke'])
})

test(`a run holds ${LONGEST_RUN} slots at the most, and what waits is counted until a thread has it`, async () => {
  line = new Line(512)
  await line.start(1)
  for (let n = 0; n < 500; n++) line.send(n === 0 ? 'torn away' : 'good')
  expect(line.pool.waiting).toBe(500)
  await expectSettled(line)
  expect(line.back.filter(({ failed }) => failed)).toHaveLength(LONGEST_RUN)
})

test('bodies that come while every thread is busy go out when one is free', async () => {
  line = new Line(512)
  await line.start(1)
  for (let n = 0; n < 300; n++) line.send('good')
  await new Promise((done) => setImmediate(done))
  for (let n = 0; n < 100; n++) line.send(n % 2 === 0 ? 'good' : 'bad')
  await expectSettled(line)
  expect(line.back).toHaveLength(400)
})

test('bodies that fit come back before those that have to be explained, which came first', async () => {
  line = new Line(4096)
  await line.start(1)
  for (let n = 0; n < 4; n++) line.send('long')
  for (let n = 0; n < 100; n++) line.send('good')
  await expectSettled(line)
  // The first long ones may be done before the last good ones have been handed over.
  expect(line.back.slice(0, 50).filter(({ body }) => body === 'long').length).toBeLessThanOrEqual(2)
  expect(line.back.at(-1)?.body).toBe('long')
})

test('small bodies that have to be explained go before large ones, of which a bounded number waits', async () => {
  line = new Line(8192)
  await line.start(1)
  for (let n = 0; n < 60; n++) line.send('long')
  for (let n = 0; n < 20; n++) line.send('bad')
  for (let n = 0; n < 100; n++) line.send('good')
  await expectSettled(line)
  // 20 fill the 2 MB, and some are with the thread by then; on a busy machine more are sent away, since they wait too long.
  expect(line.busy).toBeGreaterThanOrEqual(60 - 20 - 10)
  const explained = line.back.filter(({ body, busy }) => !busy && (body === 'long' || body === 'bad'))
  expect(explained.filter(({ body }) => body === 'bad')).toHaveLength(20)
  expect(explained.findIndex(({ body }) => body === 'bad')).toBeLessThanOrEqual(2)
})
