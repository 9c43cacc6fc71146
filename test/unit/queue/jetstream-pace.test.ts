import { describe, expect, it } from 'vitest'
import { AckWindow } from '../../../src/queue/ack-window.ts'
import { type Entry, Lane } from '../../../src/queue/nats-lanes.ts'

const TICK_MS = 0.5

/** A window on a server; messages are always there to be sent. */
function server() {
  const window = new AckWindow()
  const lane = new Lane(0)
  const sent: { number: number; atMs: number }[] = []
  let nowMs = 0
  let most = 0
  /** The server answers after `answerMs`, and no more than `perMs`. Returns how many were in flight at the most. */
  const run = (forMs: number, answerMs: number, { bytes = 1000, perMs = Number.POSITIVE_INFINITY } = {}): number => {
    const endMs = nowMs + forMs
    most = 0
    for (; nowMs < endMs; nowMs += TICK_MS) {
      for (let left = perMs * TICK_MS; left > 0; left -= 1) {
        const [first] = sent
        if (first === undefined || first.atMs + answerMs > nowMs) break
        sent.shift()
        window.take(first.number, nowMs)
      }
      while (window.isOpen) {
        const record = { line: new Uint8Array(0), batchId: '', appId: 'demo', keyed: true }
        const first: Entry = { record, settled: () => {}, deadlineMs: Number.POSITIVE_INFINITY, number: 0, next: null }
        sent.push({ number: window.nextNumber, atMs: nowMs })
        window.add(lane, { first, records: 1, bytes }, nowMs, 0)
      }
      most = Math.max(most, sent.length)
    }
    return most
  }
  const renew = (): void => {
    window.renew()
    sent.length = 0
  }
  return { run, renew }
}

describe('the window of acknowledgements', () => {
  it('stays at 64 where a server answers within 2 ms', () => {
    const { run } = server()
    expect(run(30_000, 1.5)).toBe(64)
  })

  it('widens where each answer takes 10 ms, so that ten times as many go', () => {
    const { run } = server()
    expect(run(5000, 10)).toBe(640)
  })

  it('takes 1,024 messages or 8 MiB at the most, however slow the answers are', () => {
    expect(server().run(5000, 200)).toBe(1024)
    expect(server().run(5000, 200, { bytes: 65_536 })).toBe(128)
  })

  it('closes again where the answers have become quick, and on another connection', () => {
    const { run, renew } = server()
    expect(run(11_000, 10)).toBe(640)
    run(11_000, 1)
    expect(run(9000, 1)).toBe(64)
    expect(run(5000, 10)).toBe(640)
    renew()
    expect(run(20, 10)).toBe(64)
  })

  it('is not widened by what waits in it', () => {
    const { run } = server()
    // The quickest of 64 that wait for each other takes 3.2 ms.
    expect(run(35_000, 1, { perMs: 20 })).toBeLessThan(256)
  })

  it('closes again under a load that never ends', () => {
    const { run } = server()
    expect(run(5000, 10)).toBe(640)
    run(11_000, 1, { perMs: 20 })
    expect(run(9000, 1, { perMs: 20 })).toBeLessThan(256)
  })

  it('is not widened by a hiccup', () => {
    const { run } = server()
    run(5000, 1)
    run(100, 50)
    expect(run(9000, 1)).toBe(64)
  })
})
