import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { formatBytes } from '../../../src/lib/format.ts'
import { type BytesStored, StoredBytes } from '../../../src/limits/stored-bytes.ts'

const KIB = 1024
const MIB = 1024 * KIB
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const START_MS = Date.parse('2026-11-20T12:00:00Z')

class Stage {
  nowMs = START_MS
  nodes = 1
  turns = 0
  readonly bytes = new StoredBytes({
    nowMs: () => this.nowMs,
    nodes: () => this.nodes,
    timers: {
      setImmediate: (task) => {
        this.turns += 1
        setImmediate(task)
      },
    },
  })

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

  async read(appId: string): Promise<BytesStored | undefined> {
    return (await this.bytes.read(appId, 1)).apps[0]?.[1]
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

  test('are never more than allowed, and count what was taken and not given back, in any order', async () => {
    const app = { appId: 'shop', bytesPerMinute: 3 * MIB }
    const step = fc.record({
      kind: fc.constantFrom('take', 'give back', 'store', 'wait'),
      bytes: fc.integer({ min: 1, max: 525 * KIB }),
      which: fc.nat(20),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 200 }), async (steps) => {
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
        expect((await stage.read('shop'))?.today ?? 0).toBe(kept)
      }),
    )
  })
})

describe('what was stored', () => {
  test('is known for the last hour, for today and for the highest minute of today', async () => {
    const stage = new Stage()
    stage.store('shop', 100)
    stage.nowMs += 10 * MINUTE_MS
    stage.store('shop', 30)
    stage.store('shop', 40)
    expect(await stage.read('shop')).toEqual({ lastHour: 170, today: 170, highestMinute: 100 })
    stage.nowMs += 50 * MINUTE_MS
    expect(await stage.read('shop')).toEqual({ lastHour: 70, today: 170, highestMinute: 100 })
    stage.nowMs = START_MS + DAY_MS
    expect(await stage.read('shop')).toBeUndefined()
    stage.store('shop', 5)
    expect(await stage.read('shop')).toEqual({ lastHour: 5, today: 5, highestMinute: 5 })
  })

  test('of an hour is the sum of what came in it, however time passes', async () => {
    const step = fc.record({ bytes: fc.nat(1000), waitMinutes: fc.oneof(fc.nat(12), fc.nat(200)) })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 50 }), async (steps) => {
        const stage = new Stage()
        const stored: { bytes: number; atMs: number }[] = []
        for (const { bytes, waitMinutes } of steps) {
          stage.store('shop', bytes)
          stored.push({ bytes, atMs: stage.nowMs })
          stage.nowMs += waitMinutes * MINUTE_MS
          // In cells of five minutes, of which the one that is under way is the twelfth.
          const sinceMs = Math.floor(stage.nowMs / (5 * MINUTE_MS)) * 5 * MINUTE_MS - 55 * MINUTE_MS
          const inHour = stored.filter(({ atMs }) => atMs >= sinceMs).reduce((sum, one) => sum + one.bytes, 0)
          expect((await stage.read('shop'))?.lastHour ?? 0).toBe(inHour)
        }
      }),
    )
  })

  test('is kept through a small step back of the clock', async () => {
    const stage = new Stage()
    stage.store('shop', 100)
    stage.nowMs -= 6 * MINUTE_MS
    stage.store('shop', 10)
    expect(await stage.read('shop')).toMatchObject({ lastHour: 110, today: 110 })
  })

  test('is read of so many apps as are asked for, the most of the last hour first', async () => {
    const stage = new Stage()
    const stored = [
      ['b', 2],
      ['__proto__', 9],
      ['c', 3],
    ] as const
    for (const [appId, bytes] of stored) stage.store(appId, bytes)
    const read = async (mostApps: number) => {
      const { apps, hasAll } = await stage.bytes.read(null, mostApps)
      return [apps.map(([appId]) => appId).join(' '), hasAll]
    }
    expect([await read(2), await read(3)]).toEqual([
      ['__proto__ c', false],
      ['__proto__ c b', true],
    ])
    expect(await stage.bytes.read('nope', 1)).toEqual({ apps: [], hasAll: true })
  })

  test('of many apps is the most of them all, read in short turns of the event loop', async () => {
    const stage = new Stage()
    const sizes = fc.sample(fc.integer({ min: 1, max: 1e6 }), { numRuns: 20_000, seed: 1 })
    for (const [at, bytes] of sizes.entries()) stage.store(`app-${at}`, bytes)
    const { apps, hasAll } = await stage.bytes.read(null, 1000)
    const most = sizes.toSorted((one, other) => other - one).slice(0, 1000)
    expect([apps.map(([, { lastHour }]) => lastHour), hasAll]).toEqual([most, false])
    expect(stage.turns).toBeGreaterThanOrEqual(39)
  })

  test('an hour ago is forgotten of the apps beyond 100,000', async () => {
    const stage = new Stage()
    for (let at = 0; at < 100_700; at++) stage.store(`app-${at}`, 1)
    stage.nowMs += 2 * HOUR_MS
    const firstKnown = async (): Promise<number> => {
      const read = await Promise.all(Array.from({ length: 200 }, (_, at) => stage.read(`app-${at}`)))
      return read.filter((stored) => stored !== undefined).length
    }
    expect(await firstKnown()).toBe(200)
    stage.store('app-7', 4000)
    stage.store('new', 1)
    // Asked for last while the others are looked through, and forgotten after that.
    stage.bytes.window({ appId: 'app-650', bytesPerMinute: 0 }, true)
    await expect.poll(firstKnown).toBe(1)
    await expect.poll(() => stage.read('app-650')).toBeUndefined()
    stage.store('app-650', 3)
    expect(await stage.read('app-650')).toMatchObject({ lastHour: 3 })
    expect(await stage.read('app-7')).toMatchObject({ lastHour: 4000 })
  })
})

/** All of a few apps: they take one turn. */
const compared = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

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

  test('they are those with the most of all, however many store and however time passes', async () => {
    const step = fc.record({ app: fc.nat(12), bytes: fc.nat(1000), waitMinutes: fc.oneof(fc.nat(1), fc.nat(90)) })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 60 }), async (steps) => {
        const stage = new Stage()
        const stored: { app: number; bytes: number; atMs: number }[] = []
        for (const { app, bytes, waitMinutes } of steps) {
          stage.store(`app-${app}`, bytes)
          stored.push({ app, bytes, atMs: stage.nowMs })
          stage.nowMs += waitMinutes * MINUTE_MS
          const sinceMs = Math.floor(stage.nowMs / (5 * MINUTE_MS)) * 5 * MINUTE_MS - 55 * MINUTE_MS
          const sums = new Map<number, number>()
          for (const one of stored) if (one.atMs >= sinceMs) sums.set(one.app, (sums.get(one.app) ?? 0) + one.bytes)
          const most = [...sums.values()].filter((sum) => sum > 0).toSorted((one, other) => other - one)
          stage.bytes.hold('the journal', true)
          await compared()
          const named = stage.bytes.mostText().match(/[\d.]+ (?:B|KiB)/g) ?? []
          expect(named).toEqual(most.slice(0, 3).map(formatBytes))
        }
      }),
    )
  })

  test('those who stored most are found among many in short turns, and no batch waits for them', async () => {
    const stage = new Stage()
    for (let at = 0; at < 20_000; at++) stage.store(`app-${at}`, at < 3 ? 5000 : 1)
    stage.nowMs += 30 * MINUTE_MS
    for (let at = 997; at < 1000; at++) stage.store(`app-${at}`, 1000)
    stage.nowMs += 31 * MINUTE_MS
    expect([stage.bytes.mostText(), stage.turns]).toEqual(['', 0])
    stage.bytes.hold('the journal', true)
    await expect.poll(() => stage.turns).toBeGreaterThanOrEqual(39)
    expect(stage.bytes.mostText().match(/app-99\d 1000 B/g)).toHaveLength(3)
    expect(stage.fill('app-998', 8 * MIB, KIB)).toBe(2 * MIB)
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
    expect(stage.bytes.mostText()).toBe(`${named}, and are held to a quarter of their bytes, at least 1 MiB a minute`)
    stage.nowMs += 2 * HOUR_MS
    expect(stage.bytes.mostText()).toBe('')
  })
})
