import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type App, keysOf } from '../../../../src/apps/app.ts'
import { AppTable, packApps } from '../../../../src/apps/file/packed-apps.ts'
import { anApp } from '../apps.ts'

const tableOf = (apps: readonly App[]) => new AppTable(packApps(apps, apps.length, apps.flatMap(keysOf).length))

const apps = fc.uniqueArray(
  fc.record({
    appKey: fc
      .string({ maxLength: 250, unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)) })
      .map((text) => `ak_${text}`),
    previousKeys: fc.constant([]),
    readKeys: fc.constant([]),
    appId: fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/),
    name: fc.option(fc.string({ unit: 'grapheme', maxLength: 200 })),
    plan: fc.constantFrom('trial', '10k', '5m'),
    subscription: fc.constantFrom('trialing', 'active', 'paused'),
    trialEndsAtMs: fc.option(fc.maxSafeInteger()),
    billingAnchorMs: fc.option(fc.maxSafeInteger()),
    eventsPerMinute: fc.maxSafeNat(),
    eventsPerDay: fc.option(fc.maxSafeNat()),
    eventsPerMonth: fc.maxSafeNat(),
    bytesPerMinute: fc.maxSafeNat(),
    origins: fc.constantFrom(null, [], ['https://a.example', 'https://b.example:8443']),
    alertSteps: fc.constantFrom([], [10, 100]),
  }) as fc.Arbitrary<App>,
  { selector: ({ appKey }) => appKey, maxLength: 100 },
)

describe('packed apps', () => {
  it('are found by their keys with all members, and listed in their order', () => {
    fc.assert(
      fc.property(apps, (some) => {
        const table = tableOf(some)
        expect(table.count).toBe(some.length)
        expect([...table.all()]).toEqual(some)
        for (const app of some) expect(table.find(app.appKey)).toEqual(app)
      }),
    )
  })

  it('are found by each of their previous keys, in any order of packing', () => {
    const previousKeys = ['ak_1', 'ak_2'].map((appKey, at) => ({ appKey, validUntilMs: at }))
    const some = [anApp({ appKey: 'ak_a' }), anApp({ appKey: 'ak_b', previousKeys }), anApp({ appKey: 'ak_c' })]
    const table = tableOf(some)
    for (const key of ['ak_b', 'ak_1', 'ak_2']) expect(table.find(key)).toEqual(some[1])
    expect([...table.all()]).toEqual(some)
  })

  it('are not found by any other key', () => {
    const known = new Set(['ak_a', 'ak_b'])
    const table = tableOf([...known].map((appKey) => anApp({ appKey })))
    const others = fc.string().filter((key) => !known.has(key))
    fc.assert(fc.property(others, (key) => table.find(key) === undefined))
    for (const key of ['', 'ak_', 'ak_ab', '__proto__', 'ak_a'.repeat(100_000)]) expect(table.find(key)).toBe(undefined)
    expect(tableOf([]).find('ak_a')).toBe(undefined)
  })

  it('are distinguished if their keys share a hash, as some of this many do', () => {
    const many = Array.from({ length: 200_000 }, (_, at) =>
      anApp({ appId: `a${at}`, appKey: `ak_${Math.imul(at, 0x9e3779b1).toString(36)}` }),
    )
    const table = tableOf(many)
    expect(many.filter(({ appKey }) => table.find(appKey)?.appKey !== appKey)).toEqual([])
  })

  it('are one object each, however often they are found', () => {
    const table = tableOf([anApp({ appKey: 'ak_a' })])
    expect(table.find('ak_a')).toBe(table.find('ak_a'))
  })
})
