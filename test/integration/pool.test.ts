// The built threads of the pool with a real ring: each body is handed back once, with its own result, over many rounds of
// the ring, and a failed run does not affect others.

import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Piscina } from 'piscina'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import type { Validation } from '../../src/decode/verdict.ts'
import { eventsIn } from '../../src/ring/decoded-body.ts'
import { Ring } from '../../src/ring/ring.ts'
import { event } from '../support/client.ts'

type Pool = import('../../src/decode/pool.ts').DecodePool

/** Where the pool finds the code of its threads. */
const BUILT = pathToFileURL(resolve(import.meta.dirname, '../../dist/decode/pool.js')).href
const BYTES_PER_SLOT = 4096
const LONGEST_RUN = 64
/** An invalid body of a hundred kilobytes. */
const LONG = `{"app_key":"ak_1","a":[${'[],'.repeat(34_000)}1],"events":1}`

/** long is bad too, and takes the explainer some milliseconds. A body that was never committed makes its thread fail. */
type Body = 'good' | 'bad' | 'long' | 'torn away'

interface Back {
  readonly body: Body
  readonly failed: boolean
  /** It was refused, since too much waited. */
  readonly busy?: boolean
}

/** What the first guess makes of 16 KB. */
const FEW_BYTES_MS = 16_384 * 0.25e-6

class Line {
  readonly ring: Ring
  readonly back: Back[] = []
  readonly faults = new Set<unknown>()
  readonly wrong: string[] = []
  /** The bodies whose handlers throw, by the order in which they were sent. */
  readonly broken = new Set<number>()
  readonly #inSlot = new Map<number, { body: Body; events: number; at: number }>()
  #pool: Pool | null = null
  sent = 0
  busy = 0

  constructor(slots: number) {
    this.ring = new Ring(slots * BYTES_PER_SLOT)
  }

  /** `ownMs` 0: all bodies go to the threads. */
  async start(threads: number, ownMs = 0): Promise<void> {
    const { DecodePool } = (await import(BUILT)) as typeof import('../../src/decode/pool.ts')
    this.#pool = new DecodePool({
      memory: this.ring.memory,
      slots: this.ring.slots,
      threads,
      decoder: 'scanner',
      ownMs,
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
    // It was never committed, so nothing else releases it.
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

/** Every body is handed back with the expected result, and the ring and the pool are empty. */
async function expectSettled({ back, sent, pool, ring, wrong }: Line): Promise<void> {
  await vi.waitFor(() => expect(back.length).toBe(sent), { timeout: 10_000, interval: 1 })
  expect(wrong).toEqual([])
  expect([pool.waiting, ring.requests, ring.usedBytes]).toEqual([0, 0, 0])
}

/** What the threads answer from now on comes when the function that is returned is called, or the test ends. */
function holdAnswers(): () => void {
  let release = (): void => {}
  const released = new Promise<void>((done) => (release = done))
  const run = Reflect.get(Piscina.prototype, 'run') as (...args: unknown[]) => Promise<unknown>
  const held = vi.spyOn(Piscina.prototype, 'run').mockImplementation(async function (this: Piscina, ...args) {
    const answer: unknown = await run.apply(this, args)
    await released
    return answer
  })
  const end = (): void => {
    held.mockRestore()
    release()
  }
  onTestFinished(end)
  return end
}

let line: Line

afterEach(() => line.pool.stop())

test.each([
  ['by the threads', 0],
  ['by the acceptor and the threads', FEW_BYTES_MS],
])('every body is handed back once with its own result, %s, over many rounds of the ring', async (_, ownMs) => {
  line = new Line(64)
  await line.start(2, ownMs)
  for (let round = 0; round < 60; round++) {
    for (let n = (round * 7) % 60; n >= 0; n--) line.send((round + n) % 3 === 0 ? 'bad' : 'good')
    await expectSettled(line)
  }
  expect(line.back.length).toBeGreaterThan(20 * line.ring.slots)
  expect(line.back.filter(({ failed }) => failed)).toEqual([])
})

test('a failed run is reported for each of its slots, and later runs are served', async () => {
  line = new Line(64)
  await line.start(2)
  for (let round = 0; round < 60; round++) {
    const torn = round % 2 === 0 ? round % 23 : -1
    for (let n = 0; n < 23; n++) line.send(n === torn ? 'torn away' : 'good')
    await expectSettled(line)
    const back = line.back.splice(0)
    line.sent = 0
    // The 23 bodies are four runs, of which one fails.
    const failed = back.filter((one) => one.failed).length
    expect(failed).toBeGreaterThanOrEqual(torn < 0 ? 0 : 1)
    expect(failed).toBeLessThanOrEqual(torn < 0 ? 0 : 6)
    expect(back.filter((one) => one.body === 'torn away' && !one.failed)).toEqual([])
  }
  expect(line.faults.size).toBe(30)
  expect(String([...line.faults][0])).toContain('was submitted before its body was committed')
})

test('few bytes are scanned in the turn in which they arrive, and their failures are reported', async () => {
  line = new Line(256)
  await line.start(1, 1000)
  for (let n = 0; n < 20; n++) line.send('good')
  // Its turn comes right behind the pool's, too soon for any thread.
  await new Promise((done) => setImmediate(done))
  expect(line.back).toHaveLength(20)
  for (const body of ['good', 'torn away', 'good'] as const) line.send(body)
  await new Promise((done) => setImmediate(done))
  expect(line.back.slice(20).map(({ failed }) => failed)).toEqual([true, true, true])
  line.send('bad')
  await expectSettled(line)
})

test('more bytes go to the threads, and few bytes that come meanwhile do not wait for them', async () => {
  line = new Line(512)
  await line.start(1, FEW_BYTES_MS)
  for (let n = 0; n < 300; n++) line.send('good')
  await new Promise((done) => setImmediate(done))
  expect(line.back).toEqual([])
  // The thread has two runs, and the others wait: what waits is more than the acceptor scans.
  expect(line.pool.waiting).toBe(300 - 2 * LONGEST_RUN)
  await expectSettled(line)
  const release = holdAnswers()
  for (let n = 0; n < 2 * LONGEST_RUN; n++) line.send('good')
  await new Promise((done) => setImmediate(done))
  expect([line.back.length, line.pool.waiting]).toEqual([300, 0])
  line.send('torn away')
  await new Promise((done) => setImmediate(done))
  expect(line.back.filter(({ failed }) => failed)).toHaveLength(1)
  release()
  await expectSettled(line)
})

test('a body whose handler throws counts as failed, and the others of its run are handed back', async () => {
  line = new Line(256)
  await line.start(1)
  line.broken.add(3)
  for (let n = 0; n < 10; n++) line.send('good')
  const { back, faults } = line
  await vi.waitFor(() => expect(back).toHaveLength(10), { timeout: 10_000 })
  expect(back.filter(({ failed }) => failed)).toHaveLength(1)
  expect([...faults].map(String)).toEqual(['Error: the taker broke'])
})

test(`a run has at most ${LONGEST_RUN} slots, and slots count as waiting until a thread has them`, async () => {
  line = new Line(512)
  await line.start(1)
  for (let n = 0; n < 500; n++) line.send(n === 0 ? 'torn away' : 'good')
  expect(line.pool.waiting).toBe(500)
  await expectSettled(line)
  expect(line.back.filter(({ failed }) => failed)).toHaveLength(LONGEST_RUN)
})

test('bodies that arrive while all threads are busy are served when one is free', async () => {
  line = new Line(512)
  await line.start(1)
  for (let n = 0; n < 300; n++) line.send('good')
  await new Promise((done) => setImmediate(done))
  for (let n = 0; n < 100; n++) line.send(n % 2 === 0 ? 'good' : 'bad')
  await expectSettled(line)
  expect(line.back).toHaveLength(400)
})

test('valid bodies are handed back before earlier ones that have to be explained', async () => {
  line = new Line(4096)
  await line.start(1)
  for (let n = 0; n < 4; n++) line.send('long')
  for (let n = 0; n < 100; n++) line.send('good')
  await expectSettled(line)
  // They are two runs. The first has the long ones, of which none may be done before the good ones behind them.
  expect(new Set(line.back.slice(0, 104 / 2 - 4).map(({ body }) => body))).toEqual(new Set(['good']))
})

test('small bodies are explained before large ones, of which a bounded number waits', async () => {
  // A busy machine would refuse more of them, as those that have waited for too long.
  const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now())
  onTestFinished(() => clock.mockRestore())
  line = new Line(8192)
  await line.start(1)
  for (let n = 0; n < 60; n++) line.send('long')
  for (let n = 0; n < 20; n++) line.send('bad')
  for (let n = 0; n < 100; n++) line.send('good')
  await expectSettled(line)
  // 20 fill the 2 MB, and the thread has some more.
  expect(line.busy).toBeGreaterThanOrEqual(60 - 20 - 10)
  const explained = line.back.filter(({ body, busy }) => !busy && (body === 'long' || body === 'bad'))
  expect(explained.filter(({ body }) => body === 'bad')).toHaveLength(20)
  expect(explained.findIndex(({ body }) => body === 'bad')).toBeLessThanOrEqual(2)
})
