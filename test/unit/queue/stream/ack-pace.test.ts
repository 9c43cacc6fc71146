import { describe, expect, it } from 'vitest'
import { AckPace } from '../../../../src/queue/stream/ack-pace.ts'
import { AckWindow } from '../../../../src/queue/stream/ack-window.ts'
import { type Entry, Lane } from '../../../../src/queue/stream/lanes.ts'

const TICK_MS = 0.5
const MEASURE_MS = 25

interface Server {
  /** The least time to an answer. */
  readonly answerMs: number
  /** The most that it takes. */
  readonly perMs?: number
  /** How long it stands still in every period. */
  readonly stoppedMs?: number
  readonly periodMs?: number
  /** Records offered; default: as many as the window allows. */
  readonly offeredPerMs?: number
  readonly bytes?: number
}

/** A window, a server that answers in order, and records that wait for the window. */
function publisher() {
  const window = new AckWindow()
  const lane = new Lane(0)
  const sent: { number: number; atMs: number; publishedAtMs: number }[] = []
  const waiting: number[] = []
  let nowMs = 0
  let budget = 0

  const answer = ({ answerMs, perMs = 1e9, stoppedMs = 0, periodMs = 100 }: Server): number => {
    let answered = 0
    if (nowMs % periodMs < stoppedMs) return 0
    // Fractions of a message accumulate over ticks.
    budget = (budget % 1) + perMs * TICK_MS
    for (; budget >= 1 && sent.length > 0 && sent[0].atMs + answerMs <= nowMs; budget -= 1) {
      const { number, publishedAtMs } = sent.shift() as (typeof sent)[number]
      const message = window.take(number)
      if (message === null) throw new Error('it was answered before')
      window.pace.answered(message, nowMs - publishedAtMs, nowMs)
      answered += 1
    }
    return answered
  }
  const offer = (records: number): number => {
    let refused = 0
    for (let left = records; left >= 1; left -= 1) {
      if (sent.length + waiting.length < window.pace.maxRecords) waiting.push(nowMs)
      else {
        window.pace.refused(nowMs)
        refused += 1
      }
    }
    return refused
  }
  const send = (bytes: number): void => {
    while (window.isOpen() && waiting.length > 0) {
      const publishedAtMs = waiting.shift() as number
      const record = {
        line: new Uint8Array(0),
        batchId: '',
        appId: 'demo',
        keyed: true,
        charge: { events: 1, takenAtMs: 0, minute: 0, cycleMinute: 0 },
      }
      const first: Entry = { record, onAck: () => {}, deadlineMs: 0, number: 0, burntIds: 0, next: null }
      sent.push({ number: window.nextNumber, atMs: nowMs, publishedAtMs })
      window.add(lane, { first, records: 1, bytes }, 'id', nowMs)
    }
  }
  /** What happened within a time. */
  const run = (forMs: number, server: Server) => {
    const endMs = nowMs + forMs
    const result = { mostInFlight: 0, mostInHand: 0, answered: 0, refused: 0 }
    for (let offered = 0; nowMs < endMs; nowMs += TICK_MS) {
      result.answered += answer(server)
      offered += (server.offeredPerMs ?? 0) * TICK_MS
      // At least as much waits as the window allows.
      if (server.offeredPerMs === undefined) while (waiting.length < 64) waiting.push(nowMs)
      else result.refused += offer(offered)
      offered %= 1
      send(server.bytes ?? 1000)
      if (nowMs % MEASURE_MS === 0) window.pace.measure(nowMs)
      result.mostInFlight = Math.max(result.mostInFlight, sent.length)
      result.mostInHand = Math.max(result.mostInHand, sent.length + waiting.length)
    }
    return result
  }
  const renew = (): void => {
    window.renew()
    sent.length = 0
  }
  return { pace: window.pace, run, renew }
}

describe('the window of acknowledgements', () => {
  it('stays at 64 where a server answers within 1 ms', () => {
    const { run } = publisher()
    expect(run(5000, { answerMs: 1, perMs: 30 }).mostInFlight).toBe(64)
  })

  it('carries 6,400 messages a second from the start where each answer takes 10 ms, and soon ten times as many', () => {
    const { run } = publisher()
    expect(run(1000, { answerMs: 10 }).answered).toBeGreaterThanOrEqual(6000)
    run(2000, { answerMs: 10 })
    expect(run(100, { answerMs: 10 }).answered).toBeGreaterThan(6000)
  })

  it('allows at most 1,024 messages or 8 MiB, however slow the answers are', () => {
    expect(publisher().run(5000, { answerMs: 200 }).mostInFlight).toBe(1024)
    expect(publisher().run(5000, { answerMs: 200, bytes: 65_536 }).mostInFlight).toBe(128)
  })

  it('shrinks again when the answers become quick, and on another connection', () => {
    const { run, renew } = publisher()
    run(1000, { answerMs: 10 })
    run(1000, { answerMs: 1, perMs: 30, offeredPerMs: 20 })
    expect(run(1000, { answerMs: 1, perMs: 30 }).mostInFlight).toBeLessThan(128)
    run(1000, { answerMs: 10 })
    renew()
    expect(run(20, { answerMs: 10 }).mostInFlight).toBe(64)
  })

  it('is not widened by its own waiting messages', () => {
    const { run } = publisher()
    expect(run(10_000, { answerMs: 1, perMs: 20, offeredPerMs: 15 }).mostInFlight).toBeLessThanOrEqual(64)
  })
})

describe('the bound on unsettled records', () => {
  it('is infinite while the server keeps up, even with bursts and short stalls', () => {
    const { run, pace } = publisher()
    run(1000, { answerMs: 1, perMs: 50, offeredPerMs: 20 })
    for (const stoppedMs of [20, 100, 150, 200, 225, 240, 260, 400, 900]) {
      expect(run(stoppedMs, { answerMs: 1, perMs: 0, offeredPerMs: 20 }).refused).toBe(0)
      expect(run(1000, { answerMs: 1, perMs: 50, offeredPerMs: 20 }).refused, `${stoppedMs} ms`).toBe(0)
    }
    expect(run(10, { answerMs: 1, perMs: 50, offeredPerMs: 300 }).refused).toBe(0)
    expect(run(1000, { answerMs: 1, perMs: 50, offeredPerMs: 1 }).refused).toBe(0)
    expect(pace.maxRecords).toBe(Number.POSITIVE_INFINITY)
  })

  it.each([
    ['0.5 ms, 5 a ms', { answerMs: 0.5, perMs: 5 }],
    ['0.5 ms, 1 in 10 ms', { answerMs: 0.5, perMs: 0.1 }],
    ['10 ms, 1 in 2 ms', { answerMs: 10, perMs: 0.5 }],
  ])('is what a slow server answers in a third of a second (%s)', (_name, server) => {
    const { run } = publisher()
    run(1000, { ...server, perMs: 50, offeredPerMs: 2 * server.perMs })
    run(8000, { ...server, offeredPerMs: 2 * server.perMs })
    const { answered, mostInHand, refused } = run(4000, { ...server, offeredPerMs: 2 * server.perMs })
    const capacity = 4000 * server.perMs
    expect(answered).toBeGreaterThan(0.98 * capacity)
    expect(refused).toBeGreaterThan(0.9 * capacity)
    expect(mostInHand).toBeLessThanOrEqual(Math.max(16, 1.4 * 260 * server.perMs))
  })

  it.each([100, 200, 300])('suffices for a server that stands still for most of every %d ms', (periodMs) => {
    const { run } = publisher()
    const capacityPerMs = 120 / periodMs
    const server = { answerMs: 0.5, perMs: 60, periodMs, offeredPerMs: 2 * capacityPerMs }
    run(1200, server)
    run(24_000, { ...server, stoppedMs: periodMs - 2 })
    const { answered, mostInHand, refused } = run(6000, { ...server, stoppedMs: periodMs - 2 })
    expect(answered).toBeGreaterThan(0.95 * 6000 * capacityPerMs)
    expect(refused).toBeGreaterThan(0.8 * 6000 * capacityPerMs)
    expect(mostInHand).toBeLessThan(500 * capacityPerMs)
  })

  it('is infinite again when the server has caught up, and when it answers nothing', () => {
    for (const after of [
      { answerMs: 0.5, perMs: 50, offeredPerMs: 2 },
      { answerMs: 0.5, perMs: 0, offeredPerMs: 2 },
    ]) {
      const { run, pace } = publisher()
      run(1000, { answerMs: 0.5, perMs: 50, offeredPerMs: 2 })
      run(3000, { answerMs: 0.5, perMs: 1, offeredPerMs: 2 })
      expect(pace.maxRecords).toBeLessThan(400)
      run(700, after)
      expect(pace.maxRecords).toBe(Number.POSITIVE_INFINITY)
      expect(run(500, after).refused).toBe(0)
    }
  })
})

describe('a process that stands still', () => {
  it.each([100, 249, 250, 300, 499, 500, 501, 5000])('for %i ms right after the first answer goes on', (stoodMs) => {
    const pace = new AckPace()
    pace.answered({ sentAtMs: 0, bytes: 500, records: 1 }, 1, 1)
    pace.measure(1)
    pace.measure(1 + stoodMs)
    pace.answered({ sentAtMs: 1, bytes: 500, records: 1 }, stoodMs, 1 + stoodMs)
    for (let nowMs = 2 + stoodMs; nowMs < 1000 + stoodMs; nowMs += MEASURE_MS) pace.measure(nowMs)
    expect(pace.maxRecords).toBe(Number.POSITIVE_INFINITY)
    expect(pace.maxMessages).toBeGreaterThan(0)
  })
})
