import type { NatsConnection } from '@nats-io/transport-node'
import { describe, expect, it } from 'vitest'
import { openPublisher, type StreamPublisher } from '../../../../src/queue/stream/publisher.ts'
import { PROBE_SUBJECT, type StreamFacts } from '../../../../src/queue/stream/stream.ts'
import { StreamState } from '../../../../src/queue/stream/stream-state.ts'
import { NEW_STREAM, streamOf } from '../../../support/jetstream.ts'
import { ManualTimers } from '../../../support/timers.ts'

const PRESENT = { kind: 'present', facts: { unsafe: null } as StreamFacts, created: false } as const
const RECORD = {
  line: Buffer.from('{}\n'),
  batchId: 'b',
  appId: 'demo',
  keyed: false,
  charge: { events: 1, takenAtMs: 0, minute: 0, cycleMinute: 0 },
} as const

/** A connection whose stream is found, and acknowledges no record. `answers`: those to an empty message. */
function unacknowledging(answers: () => Promise<{ data: Buffer }>): NatsConnection {
  const stream = streamOf({ bytes: 0, config: {} })
  let close = (): void => {}
  const closed = new Promise<void>((resolve) => (close = resolve))
  return {
    ...stream,
    request: (subject: string) => (subject === PROBE_SUBJECT ? answers() : stream.request(subject)),
    info: { max_payload: 1_048_576 },
    protocol: {
      connected: true,
      outbound: { fill: () => {}, drain: () => null, length: () => 0 },
      transport: { send: () => {}, socket: { writableLength: 0 } },
    },
    subscribe: () => {},
    isClosed: () => false,
    status: () => [],
    closed: () => closed,
    close: () => Promise.resolve(close()),
  } as unknown as NatsConnection
}

describe('a queue whose NATS is away', () => {
  const timers = new ManualTimers()
  const openAway = (dial = (): Promise<NatsConnection> => Promise.reject(new Error('connection refused'))) =>
    openPublisher({
      nats: 'nats://127.0.0.1:1',
      nodeId: '0123456789ab',
      partitions: 16,
      newStream: NEW_STREAM,
      timers,
      dial,
    })
  const stop = async (queue: StreamPublisher): Promise<void> => {
    const stopped = queue.stop()
    await timers.pass(1000)
    await stopped
  }

  it('lets requests wait for 2 s, and then refuses them at once, but for one a second', async () => {
    const queue = openAway()
    await timers.pass(1999)
    for (let request = 0; request < 5; request += 1) expect(queue.refusalOfNew()).toBeNull()
    await timers.pass(1)
    const acks: string[] = []
    const untilTriedMs: number[] = []
    for (let second = 0; second < 5; second += 1) {
      const startMs = timers.monotonicMs()
      while (queue.refusalOfNew() !== null) await timers.pass(10)
      untilTriedMs.push(timers.monotonicMs() - startMs)
      queue.publish(RECORD, (ack) => void acks.push(`${ack} after ${timers.monotonicMs() - startMs}`))
      expect(queue.refusalOfNew()).toBe('nats_away')
    }
    expect(untilTriedMs).toEqual([0, 1000, 1000, 1000, 1000])
    await timers.pass(2100)
    // Each waits as long as any request does, so that it is sent when NATS returns.
    expect(acks).toHaveLength(5)
    for (const ack of acks) expect(ack).toMatch(/^nats_away after [23]\d\d\d$/)
    await stop(queue)
  })

  it('chooses another request soon where the one that it chose is not published: it may be a replay', async () => {
    const queue = openAway()
    await timers.pass(5000)
    expect(queue.refusalOfNew()).toBeNull()
    expect(queue.refusalOfNew()).toBe('nats_away')
    await timers.pass(10)
    expect(queue.refusalOfNew()).toBeNull()
    await stop(queue)
  })

  it('notices by itself that a silent NATS acknowledges again, so that nobody is refused at once then', async () => {
    let asked = 0
    let isBack = false
    const answers = (): Promise<{ data: Buffer }> => {
      asked += 1
      return isBack
        ? Promise.resolve({ data: Buffer.from('{"stream":"SLUICE_EVENTS","seq":7}') })
        : new Promise((_, reject) => timers.setTimeout(() => reject(new Error('timeout')), 1000))
    }
    const queue = openAway(() => Promise.resolve(unacknowledging(answers)))
    await timers.pass(100)
    queue.publish(RECORD, () => {})
    await timers.pass(4000)
    for (const refusal of [null, 'nats_away']) expect(queue.refusalOfNew()).toBe(refusal)
    expect(asked).toBeGreaterThan(0)
    isBack = true
    await timers.pass(2000)
    for (let request = 0; request < 5; request += 1) expect(queue.refusalOfNew()).toBeNull()
    const before = asked
    await timers.pass(10_000)
    expect(asked, 'it asks no more').toBe(before)
    await stop(queue)
  })
})

const NEVER_MS = Number.POSITIVE_INFINITY

describe('the time since when NATS is away', () => {
  it.each<[claim: string, steps: [atMs: number, step: (state: StreamState) => void, awaySinceMs: number][]]>([
    [
      'begins with the start, and ends once the stream is there',
      [
        [200, (state) => state.disconnected('connection refused'), 200],
        [300, (state) => state.disconnected('connection refused'), 200],
        [300, (state) => state.connected(), 200],
        [300, (state) => state.reported(PRESENT), NEVER_MS],
      ],
    ],
    [
      'begins, where NATS does not acknowledge, with what it did not, and ends only with an acknowledgement',
      [
        [3000, (state) => state.silent(900), 900],
        [3500, (state) => state.reported(PRESENT), 900],
        [3500, (state) => state.answered(null), NEVER_MS],
      ],
    ],
    [
      'goes on where the stream is missing',
      [
        [200, (state) => state.answered({ kind: 'no responders' }), 200],
        [900, (state) => state.reported({ kind: 'absent' }), 200],
      ],
    ],
    [
      'is not counted while the stream refuses: it answers',
      [[200, (state) => state.answered({ kind: 'refused', reason: 'maximum bytes exceeded', isFull: true }), NEVER_MS]],
    ],
  ])('%s', (_, steps) => {
    let nowMs = 100
    const state = new StreamState(
      () => {},
      () => nowMs,
    )
    expect(state.awaySinceMs).toBe(100)
    state.connected()
    state.reported(PRESENT)
    expect(state.awaySinceMs).toBe(NEVER_MS)
    for (const [atMs, step, awaySinceMs] of steps) {
      nowMs = atMs
      step(state)
      expect(state.awaySinceMs).toBe(awaySinceMs)
    }
  })
})
