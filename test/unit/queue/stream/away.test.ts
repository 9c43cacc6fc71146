import { describe, expect, it } from 'vitest'
import { openPublisher } from '../../../../src/queue/stream/publisher.ts'
import type { StreamFacts } from '../../../../src/queue/stream/stream.ts'
import { StreamState } from '../../../../src/queue/stream/stream-state.ts'
import { NEW_STREAM } from '../../../support/jetstream.ts'
import { ManualTimers } from '../../../support/timers.ts'

const PRESENT = { kind: 'present', facts: { unsafe: null } as StreamFacts, created: false } as const
const RECORD = {
  line: Buffer.from('{}\n'),
  batchId: 'b',
  appId: 'demo',
  keyed: false,
  charge: { events: 1, takenAtMs: 0, minute: 0, cycleMinute: 0 },
} as const

describe('a queue whose NATS is away', () => {
  const timers = new ManualTimers()
  const openAway = () =>
    openPublisher({
      nats: 'nats://127.0.0.1:1',
      nodeId: '0123456789ab',
      partitions: 16,
      newStream: NEW_STREAM,
      timers,
      dial: () => Promise.reject(new Error('connection refused')),
    })

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
    const stopped = queue.stop()
    await timers.pass(1000)
    await stopped
  })

  it('chooses another request soon where the one that it chose is not published: it may be a replay', async () => {
    const queue = openAway()
    await timers.pass(5000)
    expect(queue.refusalOfNew()).toBeNull()
    expect(queue.refusalOfNew()).toBe('nats_away')
    await timers.pass(10)
    expect(queue.refusalOfNew()).toBeNull()
    const stopped = queue.stop()
    await timers.pass(1000)
    await stopped
  })
})

describe('the time since when NATS is away', () => {
  function upAt(atMs: number) {
    let nowMs = atMs
    const state = new StreamState(
      () => {},
      () => nowMs,
    )
    state.connected()
    state.reported(PRESENT)
    expect(state.awaySinceMs).toBe(Number.POSITIVE_INFINITY)
    return { state, at: (ms: number) => void (nowMs = ms) }
  }

  it('begins with the start, and ends once the stream is there', () => {
    const { state, at } = upAt(100)
    at(200)
    state.disconnected('connection refused')
    at(300)
    state.disconnected('connection refused')
    state.connected()
    expect(state.awaySinceMs).toBe(200)
    state.reported(PRESENT)
    expect(state.awaySinceMs).toBe(Number.POSITIVE_INFINITY)
  })

  it('begins, where NATS does not acknowledge, with what it did not, and ends only with an acknowledgement', () => {
    const { state, at } = upAt(100)
    at(3000)
    state.silent(900)
    expect(state.awaySinceMs).toBe(900)
    at(3500)
    state.reported(PRESENT)
    expect(state.isUp).toBe(true)
    expect(state.awaySinceMs).toBe(900)
    state.answered(null)
    expect(state.awaySinceMs).toBe(Number.POSITIVE_INFINITY)
  })

  it('goes on where the stream is missing', () => {
    const { state, at } = upAt(100)
    at(200)
    state.answered({ kind: 'no responders' })
    at(900)
    state.reported({ kind: 'absent' })
    expect(state.awaySinceMs).toBe(200)
  })

  it('is not counted while the stream refuses: it answers', () => {
    const { state } = upAt(100)
    state.answered({ kind: 'refused', reason: 'maximum bytes exceeded', isFull: true })
    expect(state.awaySinceMs).toBe(Number.POSITIVE_INFINITY)
  })
})
