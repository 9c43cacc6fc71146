import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import * as fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { batchIdOf } from '../../../src/contract/ids.ts'
import type { Claim } from '../../../src/keys/deduplicator.ts'
import { createMemoryDeduplicator } from '../../../src/keys/memory-deduplicator.ts'

const NOON_MS = Date.UTC(2026, 10, 20, 12)
const WINDOW_MS = 300_000
const HOUR_MS = 3_600_000
/** Where the low 25 bits of a time wrap around. */
const WRAP_MS = Math.ceil(NOON_MS / 2 ** 25) * 2 ** 25
const MAX_KEYS = 1_000_000

const idOf = (number: number) => batchIdOf('demo', `${number}`)
const freshId = () => batchIdOf('demo', randomUUID())
const CLAIMED: Claim = { kind: 'claimed' }
const FULL = { kind: 'full' }
const replayOf = (events: number) => ({ kind: 'replay', events })

/** Claims and confirms a new key at one moment. */
function accept(deduplicator: ReturnType<typeof createMemoryDeduplicator>, id: string, events: number, nowMs: number) {
  const claim = deduplicator.claim(id, nowMs)
  if (claim instanceof Promise || claim.kind !== 'claimed') throw new Error(`${id} is not new`)
  deduplicator.confirm(id, events, nowMs)
}

describe('an accepted key', () => {
  it('is replayed with its events for 300 s from its acceptance, the last millisecond included', () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
    const id = freshId()
    expect(deduplicator.claim(id, NOON_MS)).toEqual(CLAIMED)
    deduplicator.confirm(id, 100, NOON_MS + 50)
    expect(deduplicator.claim(id, NOON_MS + 50)).toEqual(replayOf(100))
    expect(deduplicator.claim(id, NOON_MS + 50 + WINDOW_MS)).toEqual(replayOf(100))
    expect(deduplicator.claim(id, NOON_MS + 51 + WINDOW_MS)).toEqual(CLAIMED)
  })

  it('is not renewed by a replay', () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
    const id = freshId()
    accept(deduplicator, id, 0, NOON_MS)
    for (let second = 1; second <= 300; second++) {
      expect(deduplicator.claim(id, NOON_MS + second * 1000)).toEqual(replayOf(0))
    }
    expect(deduplicator.claim(id, NOON_MS + 300_001)).toEqual(CLAIMED)
  })

  it('can be accepted again once its window has ended, and begins a new one', () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
    const id = freshId()
    accept(deduplicator, id, 1, NOON_MS)
    accept(deduplicator, id, 2, NOON_MS + WINDOW_MS + 1)
    expect(deduplicator.claim(id, NOON_MS + 2 * WINDOW_MS + 1)).toEqual(replayOf(2))
    expect(deduplicator.size).toBe(1)
  })

  it('is distinguished from every id that differs in one digit', () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
    const id = 'b626cee3-329a-5f09-b610-1fe47e9b8303'
    accept(deduplicator, id, 7, NOON_MS)
    for (let at = 0; at < id.length; at++) {
      if (id[at] === '-') continue
      const other = id.slice(0, at) + (id[at] === 'f' ? '0' : 'f') + id.slice(at + 1)
      if (other === id) continue
      expect([other, deduplicator.claim(other, NOON_MS)]).toEqual([other, CLAIMED])
    }
    expect(deduplicator.claim(id, NOON_MS)).toEqual(replayOf(7))
  })

  it('is not taken for a recent one after a gap of hours', () => {
    for (const gapMs of [HOUR_MS, 4.66 * HOUR_MS, 9.32 * HOUR_MS, 2 ** 25, 2 ** 32, 2 ** 32 + 1000]) {
      const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
      const id = freshId()
      accept(deduplicator, id, 1, NOON_MS)
      expect([gapMs, deduplicator.claim(id, NOON_MS + gapMs)]).toEqual([gapMs, CLAIMED])
    }
  })

  it('survives a clock that is set back, and is still forgotten 300 s later', () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
    const id = freshId()
    accept(deduplicator, id, 1, NOON_MS)
    const setBackMs = NOON_MS - 1000 * HOUR_MS
    expect(deduplicator.claim(id, setBackMs)).toEqual(replayOf(1))
    expect(deduplicator.claim(id, setBackMs + WINDOW_MS)).toEqual(replayOf(1))
    expect(deduplicator.claim(id, setBackMs + WINDOW_MS + 1)).toEqual(CLAIMED)
  })

  it('is not forgotten early by callers whose times are a little out of order', () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
    const id = freshId()
    accept(deduplicator, id, 1, NOON_MS)
    for (let nowMs = NOON_MS; nowMs <= NOON_MS + WINDOW_MS; nowMs += 100) {
      deduplicator.sweep(nowMs)
      expect(deduplicator.claim(id, nowMs - 3000)).toEqual(replayOf(1))
    }
  })
})

describe('a key in flight', () => {
  it('makes requests with the same key wait, and all replay it once it is accepted', async () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
    const id = freshId()
    expect(deduplicator.claim(id, NOON_MS)).toEqual(CLAIMED)
    const twins = [1, 2].map((ms) => deduplicator.claim(id, NOON_MS + ms) as Promise<Claim>)
    for (const twin of twins) expect(twin).toBeInstanceOf(Promise)
    deduplicator.confirm(id, 3, NOON_MS + 3)
    expect(await Promise.all(twins)).toEqual([replayOf(3), replayOf(3)])
  })

  it('passes to the request that waited longest if it was not accepted, and the others wait on', async () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
    const id = freshId()
    expect(deduplicator.claim(id, NOON_MS)).toEqual(CLAIMED)
    const answers: string[] = []
    const twin = (name: string) =>
      (deduplicator.claim(id, NOON_MS) as Promise<Claim>).then((claim) => answers.push(`${name} ${claim.kind}`))
    const twins = [twin('first'), twin('second'), twin('third')]
    deduplicator.release(id)
    await twins[0]
    expect(answers).toEqual(['first claimed'])
    deduplicator.release(id)
    await twins[1]
    expect(answers).toEqual(['first claimed', 'second claimed'])
    deduplicator.confirm(id, 1, NOON_MS)
    await twins[2]
    expect(answers).toEqual(['first claimed', 'second claimed', 'third replay'])
  })

  it('is forgotten when it is released', () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: 1 })
    expect(deduplicator.claim(idOf(1), NOON_MS)).toEqual(CLAIMED)
    deduplicator.release(idOf(1))
    expect(deduplicator.size).toBe(0)
    expect(deduplicator.claim(idOf(2), NOON_MS)).toEqual(CLAIMED)
  })

  it('can be confirmed or released only while it is in flight: otherwise that throws', () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
    const id = freshId()
    expect(() => deduplicator.confirm(id, 1, NOON_MS)).toThrow('not in flight')
    expect(() => deduplicator.release(id)).toThrow('not in flight')
    accept(deduplicator, id, 1, NOON_MS)
    expect(() => deduplicator.confirm(id, 1, NOON_MS)).toThrow('not in flight')
    expect(deduplicator.claim(idOf(1), NOON_MS)).toEqual(CLAIMED)
    expect(() => deduplicator.confirm(idOf(1), 101, NOON_MS)).toThrow('101 events')
  })
})

describe('the maximum of keys', () => {
  it('counts keys in flight and accepted ones, and refuses one more', () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: 3 })
    accept(deduplicator, idOf(1), 1, NOON_MS)
    accept(deduplicator, idOf(2), 1, NOON_MS + 1)
    expect(deduplicator.claim(idOf(3), NOON_MS + 2)).toEqual(CLAIMED)
    expect(deduplicator.claim(idOf(4), NOON_MS + 3)).toEqual(FULL)
    expect(deduplicator.claim(idOf(1), NOON_MS + 4)).toEqual(replayOf(1))
    expect(deduplicator.claim(idOf(3), NOON_MS + 4)).toBeInstanceOf(Promise)
    expect(deduplicator.claim(idOf(4), NOON_MS + WINDOW_MS)).toEqual(FULL)
    expect(deduplicator.claim(idOf(4), NOON_MS + WINDOW_MS + 1)).toEqual(CLAIMED)
    expect(deduplicator.claim(idOf(5), NOON_MS + WINDOW_MS + 1)).toEqual(FULL)
  })

  it('is available again once the keys expire, however often it fills', () => {
    const maxKeys = 5000
    const deduplicator = createMemoryDeduplicator({ maxKeys })
    for (let round = 0; round < 4; round++) {
      const nowMs = NOON_MS + round * (WINDOW_MS + 1)
      for (let number = 0; number < maxKeys; number++) accept(deduplicator, idOf(round * maxKeys + number), 1, nowMs)
      expect(deduplicator.claim(freshId(), nowMs + WINDOW_MS)).toEqual(FULL)
    }
  })

  it('a sweep forgets only expired keys', () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
    const keys = 30_000
    for (let number = 0; number < keys; number++) accept(deduplicator, idOf(number), 1, NOON_MS + number)
    deduplicator.sweep(NOON_MS + WINDOW_MS)
    expect(deduplicator.size).toBe(keys)
    deduplicator.sweep(NOON_MS + WINDOW_MS + 1000)
    expect(deduplicator.size).toBe(keys - 1000)
    expect(deduplicator.claim(idOf(1000), NOON_MS + WINDOW_MS + 1000)).toEqual(replayOf(1))
    for (let sweep = 0; sweep < 4; sweep++) deduplicator.sweep(NOON_MS + 2 * WINDOW_MS)
    expect(deduplicator.size).toBe(0)
  })
})

describe('memory', () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const bytesHeld = () => {
    collectGarbage()
    return process.memoryUsage().arrayBuffers
  }

  it('is at most 64 bytes a key, and is freed when the keys expire', async () => {
    const keys = 60_000
    const ids = Array.from({ length: keys }, (_, number) => idOf(number))
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
    const emptyBytes = bytesHeld()
    for (const id of ids) accept(deduplicator, id, 1, NOON_MS)
    expect((bytesHeld() - emptyBytes) / keys).toBeLessThan(64)
    for (let sweep = 0; sweep < 4; sweep++) deduplicator.sweep(NOON_MS + WINDOW_MS + 1)
    expect(deduplicator.size).toBe(0)
    // The garbage collector frees arrays on another thread.
    await vi.waitFor(() => expect(bytesHeld() - emptyBytes).toBeLessThan(50_000), { timeout: 10_000 })
  })
})

describe('the hash of an accepted body', () => {
  it('is replayed with its key, through growth and expiry of others', () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
    const hashOf = (number: number): number => (number * 2_654_435_761) % 2 ** 32
    const claimed = (number: number): unknown => deduplicator.claim(idOf(number), NOON_MS + number)
    for (let number = 1; number <= 20_000; number++) {
      expect(claimed(number)).toEqual(CLAIMED)
      deduplicator.confirm(idOf(number), number % 101, NOON_MS + number, hashOf(number))
    }
    for (let number = 1; number <= 20_000; number++) {
      expect(claimed(number)).toEqual({ kind: 'replay', events: number % 101, eventsHash: hashOf(number) })
    }
    deduplicator.sweep(NOON_MS + WINDOW_MS + 15_000)
    expect(deduplicator.claim(idOf(19_999), NOON_MS + WINDOW_MS + 15_000)).toMatchObject({ eventsHash: hashOf(19_999) })
  })

  it('is told to the requests that wait, and is not known after a restart', async () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
    expect(deduplicator.claim(idOf(1), NOON_MS)).toEqual(CLAIMED)
    const twin = deduplicator.claim(idOf(1), NOON_MS)
    deduplicator.confirm(idOf(1), 2, NOON_MS, 7)
    expect(await twin).toEqual({ kind: 'replay', events: 2, eventsHash: 7 })
    deduplicator.restore(idOf(2), 2, NOON_MS)
    expect(deduplicator.claim(idOf(2), NOON_MS)).toEqual(replayOf(2))
  })
})

describe('keys restored after a restart', () => {
  it('are replayed until 300 s after their acceptance', () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
    deduplicator.restore(idOf(1), 5, NOON_MS - WINDOW_MS - 1)
    deduplicator.restore(idOf(2), 6, NOON_MS - WINDOW_MS)
    deduplicator.restore(idOf(3), 7, NOON_MS - 1)
    expect(deduplicator.claim(idOf(1), NOON_MS)).toEqual(CLAIMED)
    expect(deduplicator.claim(idOf(2), NOON_MS)).toEqual(replayOf(6))
    expect(deduplicator.claim(idOf(3), NOON_MS + WINDOW_MS - 1)).toEqual(replayOf(7))
    expect(deduplicator.claim(idOf(3), NOON_MS + WINDOW_MS)).toEqual(CLAIMED)
  })

  it('need not come in order, and the later of two acceptances holds', () => {
    const deduplicator = createMemoryDeduplicator({ maxKeys: MAX_KEYS })
    const numbers = Array.from({ length: 3000 }, (_, index) => (index * 7919) % 3000)
    for (const number of numbers) deduplicator.restore(idOf(number), number % 101, NOON_MS + number)
    deduplicator.restore(idOf(5), 99, NOON_MS + 3000)
    const nowMs = NOON_MS + WINDOW_MS + 1500
    for (const number of numbers) {
      const expected = number === 5 ? replayOf(99) : number < 1500 ? CLAIMED : replayOf(number % 101)
      expect([number, deduplicator.claim(idOf(number), nowMs)]).toEqual([number, expected])
    }
  })
})

describe('against a naive model', () => {
  // Ids with one of three last bytes, so that their few shards fill, wrap, grow and shrink.
  const ids = Array.from({ length: 40_000 }, (_, number) => idOf(number)).filter((id) => /0[0-2]$/.test(id))
  // Ids with the same first word collide in the hash table, whatever the seed.
  for (let number = 0; number < 40; number++) {
    const digest = createHash('sha1').update(`${number}`).digest('hex')
    ids.push(`0badcafe-${digest.slice(0, 4)}-5${digest.slice(4, 7)}-8${digest.slice(7, 10)}-${digest.slice(10, 20)}00`)
  }
  const gaps = fc.oneof(
    { weight: 40, arbitrary: fc.constantFrom(0, 1, 999) },
    { weight: 6, arbitrary: fc.constant(20_000) },
    { weight: 1, arbitrary: fc.constant(301_000) },
  )
  const action = fc.oneof(
    { weight: 8, arbitrary: fc.record({ kind: fc.constant('claim' as const), id: fc.constantFrom(...ids) }) },
    {
      weight: 7,
      arbitrary: fc.record({ kind: fc.constant('confirm' as const), which: fc.nat(100), events: fc.nat(100) }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('release' as const), which: fc.nat(100) }) },
    {
      weight: 4,
      arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: gaps }),
    },
    { weight: 1, arbitrary: fc.constant({ kind: 'sweep' as const }) },
  )

  it('every claim, of new, concurrent and expired keys, gets the answer of a plain Map', async () => {
    const sequences = fc.array(action, { maxLength: 1500, size: 'max' })
    const property = fc.asyncProperty(
      sequences,
      fc.constantFrom(4, 60, 10_000, 10_000),
      fc.constantFrom(NOON_MS, WRAP_MS - 200_000),
      fc.integer(),
      async (sequence, maxKeys, startMs, seed) => {
        const deduplicator = createMemoryDeduplicator({ maxKeys, seed })
        const accepted = new Map<string, { atMs: number; events: number }>()
        const waiting = new Map<string, { expected: string; answer: string }[]>()
        let nowMs = startMs
        const text = (claim: Claim) => (claim.kind === 'replay' ? `replay ${claim.events}` : claim.kind)

        for (const step of sequence) {
          if (step.kind === 'wait') {
            nowMs += step.ms
            for (const [id, { atMs }] of accepted) if (nowMs - atMs > WINDOW_MS) accepted.delete(id)
          } else if (step.kind === 'sweep') {
            deduplicator.sweep(nowMs)
            assert.equal(deduplicator.size, accepted.size)
          } else if (step.kind === 'claim') {
            const twins = waiting.get(step.id)
            const claim = deduplicator.claim(step.id, nowMs)
            if (twins !== undefined) {
              assert(claim instanceof Promise)
              const twin = { expected: 'none yet', answer: 'none yet' }
              twins.push(twin)
              void claim.then((settled) => (twin.answer = text(settled)))
              continue
            }
            const known = accepted.get(step.id)
            let expected = 'claimed'
            if (known !== undefined) expected = `replay ${known.events}`
            else if (accepted.size + waiting.size >= maxKeys) expected = 'full'
            else waiting.set(step.id, [])
            assert.equal(text(claim as Claim), expected)
          } else if (waiting.size > 0) {
            const [id, twins] = [...waiting][step.which % waiting.size]
            const asked = [...twins]
            if (step.kind === 'confirm') {
              deduplicator.confirm(id, step.events, nowMs)
              accepted.set(id, { atMs: nowMs, events: step.events })
              for (const twin of twins) twin.expected = `replay ${step.events}`
              waiting.delete(id)
            } else {
              deduplicator.release(id)
              const next = twins.shift()
              if (next === undefined) waiting.delete(id)
              else next.expected = 'claimed'
            }
            await Promise.resolve()
            for (const twin of asked) assert.equal(twin.answer, twin.expected)
          }
        }
      },
    )
    await expect(fc.assert(property, { numRuns: 150 })).resolves.toBeUndefined()
  })
})
