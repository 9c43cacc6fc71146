import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { StoredBytes } from '../../../src/limits/stored-bytes.ts'

const KIB = 1024
const MIB = 1024 * KIB
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const START_MS = Date.parse('2026-11-20T12:00:00Z')

class Stage {
  nowMs = START_MS
  nodes = 1
  readonly bytes = new StoredBytes({ nowMs: () => this.nowMs, nodes: () => this.nodes })

  /** Stores batches of this size until one finds no room; resolves with the bytes stored. */
  fill(appId: string, bytesPerMinute: number, batchBytes: number): number {
    const app = { appId, bytesPerMinute }
    let stored = 0
    for (; this.bytes.take(app, batchBytes); stored += batchBytes) this.bytes.store(app, batchBytes)
    return stored
  }

  store(appId: string, bytes: number): void {
    this.bytes.store({ appId, bytesPerMinute: 0 }, bytes)
  }

  read(appId: string): object | undefined {
    return this.bytes.read(appId)[0]?.[1]
  }
}

describe('the bytes of a minute', () => {
  test.each([
    { nodes: 1, budget: 8 * MIB, allowed: 8 * MIB },
    { nodes: 2, budget: 8 * MIB, allowed: 4 * MIB },
    { nodes: 3, budget: 8 * MIB, allowed: Math.floor((8 * MIB) / 3 / KIB) * KIB },
    { nodes: 4, budget: 8 * MIB, allowed: 2 * MIB },
    { nodes: 40, budget: 8 * MIB, allowed: 2 * MIB },
    { nodes: 4, budget: 2 * MIB, allowed: MIB },
    { nodes: 1, budget: 1, allowed: MIB },
  ])('are $allowed where $nodes nodes share $budget', ({ nodes, budget, allowed }) => {
    const stage = new Stage()
    stage.nodes = nodes
    expect(stage.fill('shop', budget, KIB)).toBe(allowed)
    expect(stage.fill('other', budget, KIB)).toBe(allowed)
  })

  test('come back with the next minute of the clock, whatever the second', () => {
    const stage = new Stage()
    stage.nowMs = START_MS + MINUTE_MS - 1
    stage.fill('shop', 2 * MIB, KIB)
    expect(stage.bytes.secondsUntilRoom).toBe(1)
    stage.nowMs += 1
    expect(stage.fill('shop', 2 * MIB, KIB)).toBe(2 * MIB)
    expect(stage.bytes.secondsUntilRoom).toBe(60)
  })

  test('go by the record as it is now', () => {
    const stage = new Stage()
    stage.fill('shop', 2 * MIB, KIB)
    expect(stage.fill('shop', 3 * MIB, KIB)).toBe(MIB)
  })

  test('that are given back are free in their own minute alone', () => {
    const stage = new Stage()
    const app = { appId: 'shop', bytesPerMinute: MIB }
    expect(stage.bytes.take(app, MIB)).toBe(true)
    expect(stage.bytes.take(app, 1)).toBe(false)
    stage.bytes.giveBack(app, MIB, stage.nowMs)
    expect(stage.bytes.take(app, MIB)).toBe(true)
    stage.nowMs += MINUTE_MS
    expect(stage.bytes.take(app, MIB)).toBe(true)
    stage.bytes.giveBack(app, MIB, stage.nowMs - MINUTE_MS)
    expect(stage.bytes.take(app, 1)).toBe(false)
  })

  test('are shown once less than a fifth is left, and always where that is asked for', () => {
    const stage = new Stage()
    const app = { appId: 'shop', bytesPerMinute: 10 * MIB }
    const full = { name: 'bytes', limit: 10 * MIB, remaining: 10 * MIB, lengthSeconds: 60, resetSeconds: 60 }
    expect(stage.bytes.window(app, true)).toEqual(full)
    expect(stage.bytes.window(app, false)).toBeNull()
    stage.bytes.take(app, 8 * MIB)
    expect(stage.bytes.window(app, false)).toBeNull()
    stage.bytes.take(app, 1)
    expect(stage.bytes.window(app, false)).toEqual({ ...full, remaining: 2 * MIB - 1 })
    stage.nowMs += MINUTE_MS
    expect(stage.bytes.window(app, false)).toBeNull()
  })

  test('are never more than allowed, and count what was taken and not given back, in any order', () => {
    const app = { appId: 'shop', bytesPerMinute: 3 * MIB }
    const step = fc.record({
      kind: fc.constantFrom('take', 'give back', 'store', 'wait'),
      bytes: fc.integer({ min: 1, max: 525 * KIB }),
      which: fc.nat(20),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const stage = new Stage()
        const open: { bytes: number; atMs: number }[] = []
        let inMinute = 0
        let kept = 0
        for (const { kind, bytes, which } of steps) {
          const minute = Math.floor(stage.nowMs / MINUTE_MS)
          if (kind === 'take') {
            const fits = inMinute === 0 || inMinute + bytes <= 3 * MIB
            expect(stage.bytes.take(app, bytes)).toBe(fits)
            if (!fits) continue
            inMinute += bytes
            open.push({ bytes, atMs: stage.nowMs })
          } else if (kind === 'wait') {
            stage.nowMs += 7000 * (which + 1)
            if (Math.floor(stage.nowMs / MINUTE_MS) !== minute) inMinute = 0
          } else {
            const [one] = open.splice(which % Math.max(1, open.length), 1)
            if (one === undefined) continue
            if (kind === 'store') {
              stage.bytes.store(app, one.bytes)
              kept += one.bytes
            } else {
              stage.bytes.giveBack(app, one.bytes, one.atMs)
              if (Math.floor(one.atMs / MINUTE_MS) === minute) inMinute -= one.bytes
            }
          }
          expect(stage.bytes.window(app, true)?.remaining).toBe(3 * MIB - inMinute)
        }
        expect(stage.bytes.read('shop')[0]?.[1].today ?? 0).toBe(kept)
      }),
    )
  })
})

describe('what was stored', () => {
  test('is told of the last hour, of today and of the highest minute of today', () => {
    const stage = new Stage()
    stage.store('shop', 100)
    stage.nowMs += 10 * MINUTE_MS
    stage.store('shop', 30)
    stage.store('shop', 40)
    expect(stage.read('shop')).toEqual({ lastHour: 170, today: 170, highestMinute: 100 })
    stage.nowMs += 50 * MINUTE_MS
    expect(stage.read('shop')).toEqual({ lastHour: 70, today: 170, highestMinute: 100 })
    stage.nowMs = START_MS + DAY_MS
    expect(stage.read('shop')).toBeUndefined()
    stage.store('shop', 5)
    expect(stage.read('shop')).toEqual({ lastHour: 5, today: 5, highestMinute: 5 })
  })

  test('of an hour is the sum of what came in it, however time passes', () => {
    const step = fc.record({ bytes: fc.nat(1000), waitMinutes: fc.oneof(fc.nat(12), fc.nat(200)) })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 50 }), (steps) => {
        const stage = new Stage()
        const stored: { bytes: number; atMs: number }[] = []
        for (const { bytes, waitMinutes } of steps) {
          stage.store('shop', bytes)
          stored.push({ bytes, atMs: stage.nowMs })
          stage.nowMs += waitMinutes * MINUTE_MS
          // In cells of five minutes, of which the one that is under way is the twelfth.
          const sinceMs = Math.floor(stage.nowMs / (5 * MINUTE_MS)) * 5 * MINUTE_MS - 55 * MINUTE_MS
          const inHour = stored.filter(({ atMs }) => atMs >= sinceMs).reduce((sum, one) => sum + one.bytes, 0)
          const found = stage.read('shop') as { lastHour: number } | undefined
          expect(found?.lastHour ?? 0).toBe(inHour)
        }
      }),
    )
  })

  test('is kept through a small step back of the clock', () => {
    const stage = new Stage()
    stage.store('shop', 100)
    stage.nowMs -= 6 * MINUTE_MS
    stage.store('shop', 10)
    expect(stage.read('shop')).toMatchObject({ lastHour: 110, today: 110 })
  })

  test('is told of all, the most of the last hour first', () => {
    const stage = new Stage()
    for (const [appId, bytes] of [
      ['b', 2],
      ['__proto__', 9],
      ['c', 3],
    ] as const)
      stage.store(appId, bytes)
    expect(stage.bytes.read(null).map(([appId]) => appId)).toEqual(['__proto__', 'c', 'b'])
  })
})

describe('while a store fills', () => {
  test('the three apps that stored most in the last hour are held to a quarter, and others are not', () => {
    const stage = new Stage()
    for (const [at, appId] of ['a', 'b', 'c', 'd', 'e'].entries()) stage.store(appId, 100 - at)
    stage.bytes.hold('the journal', true)
    const allowed = (appId: string) => stage.fill(appId, 8 * MIB, KIB)
    expect(['d', 'e', 'a', 'b', 'c'].map(allowed)).toEqual([8, 8, 2, 2, 2].map((mib) => mib * MIB))
  })

  test.each([
    { nodes: 1, budget: 2 * MIB, allowed: MIB },
    { nodes: 2, budget: 16 * MIB, allowed: 2 * MIB },
    { nodes: 4, budget: 2 * MIB, allowed: MIB },
  ])('a quarter of $budget is $allowed on each of $nodes nodes', ({ nodes, budget, allowed }) => {
    const stage = new Stage()
    stage.nodes = nodes
    stage.store('shop', 1)
    stage.bytes.hold('the journal', true)
    expect(stage.fill('shop', budget, KIB)).toBe(allowed)
  })

  test('they are chosen anew in each minute, and all are free again with room in each store', () => {
    const stage = new Stage()
    for (const appId of ['a', 'b', 'c']) stage.store(appId, 100)
    stage.bytes.hold('the spool', true)
    stage.bytes.hold('stream SLUICE_EVENTS', true)
    expect(stage.fill('flood', 8 * MIB, KIB)).toBe(8 * MIB)
    stage.nowMs += MINUTE_MS
    expect(stage.fill('flood', 8 * MIB, KIB)).toBe(2 * MIB)
    stage.bytes.hold('the spool', false)
    stage.nowMs += MINUTE_MS
    expect(stage.fill('flood', 8 * MIB, KIB)).toBe(2 * MIB)
    stage.bytes.hold('stream SLUICE_EVENTS', false)
    stage.nowMs += MINUTE_MS
    expect(stage.fill('flood', 8 * MIB, KIB)).toBe(8 * MIB)
  })

  test('a batch of the largest size finds room in a minute in which its app stored nothing', () => {
    const stage = new Stage()
    stage.store('shop', 100)
    stage.bytes.hold('the journal', true)
    expect(stage.fill('shop', 2 * MIB, 1025 * KIB)).toBe(1025 * KIB)
  })

  test('its lines name the three with their bytes, once anybody has stored anything', () => {
    const stage = new Stage()
    expect(stage.bytes.mostText()).toBe('')
    for (const [at, appId] of ['d', 'c', 'b', 'a'].entries()) stage.store(appId, (at + 1) * MIB)
    const named = '; most of the last hour on this node stored a 4 MiB, b 3 MiB, c 2 MiB'
    expect(stage.bytes.mostText()).toBe(named)
    stage.bytes.hold('the journal', true)
    expect(stage.bytes.mostText()).toBe(`${named}, and are held to a quarter of their bytes`)
    stage.nowMs += 2 * HOUR_MS
    expect(stage.bytes.mostText()).toBe('')
  })
})
