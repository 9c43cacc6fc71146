import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AppIndex } from '../../../src/apps/app-index.ts'
import type { AppRecord } from '../../../src/apps/app-record.ts'

const record = (id: string, key: string, previous: readonly string[] = []): AppRecord => ({
  app_key: key,
  app_id: id,
  plan: '10k',
  subscription: 'active',
  ...(previous.length === 0
    ? {}
    : { previous_keys: previous.map((app_key) => ({ app_key, valid_until: '2026-12-31T00:00:00Z' })) }),
})
const entry = (one: AppRecord, revision: number) => ({ key: one.app_id, revision, text: JSON.stringify(one) })
const NOW_MS = Date.UTC(2026, 10, 20)

describe('entries of the bucket', () => {
  it('count as bad while their last revision is, and no longer', () => {
    const entries = new AppIndex()
    const put = (key: string, revision: number, text: string | null) => {
      entries.put({ key, revision, text })
      return entries.badCount
    }
    const good = JSON.stringify(record('a', 'ak_1'))
    expect([put('a', 1, good), put('a', 2, '{'), put('a', 3, '['), put('b', 4, 'x')]).toEqual([0, 1, 1, 2])
    expect(entries.find('ak_1', NOW_MS)).toMatchObject({ appId: 'a' })
    expect([put('a', 5, good), put('b', 6, null), put('b', 6, null)]).toEqual([1, 0, 0])
  })

  it('are found like in a plain search, whatever is put, changed and deleted', () => {
    const ids = ['a', 'b', 'c'] as const
    const keys = ['ak_1', 'ak_2', 'ak_3', 'ak_4'] as const
    const change = fc.record({
      id: fc.constantFrom(...ids),
      keys: fc.option(fc.uniqueArray(fc.constantFrom(...keys), { minLength: 1, maxLength: 3 })),
    })
    fc.assert(
      fc.property(fc.array(change, { maxLength: 30 }), (changes) => {
        const entries = new AppIndex()
        const model = new Map<string, { revision: number; keys: readonly string[] }>()
        for (const [at, { id, keys: named }] of changes.entries()) {
          const revision = at + 1
          if (named === null) {
            entries.put({ key: id, revision, text: null })
            model.delete(id)
          } else {
            entries.put(entry(record(id, named[0], named.slice(1)), revision))
            model.set(id, { revision, keys: named })
          }
          for (const key of keys) {
            const holders = [...model].filter(([, each]) => each.keys.includes(key))
            const oldest = holders.toSorted(([, one], [, other]) => one.revision - other.revision)[0]
            const found = entries.find(key, NOW_MS)
            expect(found === 'unknown' ? undefined : found.appId).toBe(oldest?.[0])
          }
          expect([...entries.all()].map(({ appId }) => appId).toSorted()).toEqual([...model.keys()].toSorted())
        }
      }),
    )
  })

  it('of an older revision change nothing, until the known ones are outdated', () => {
    const entries = new AppIndex()
    entries.put(entry(record('a', 'ak_new'), 7))
    expect(entries.put(entry(record('a', 'ak_old'), 7))).toEqual({ kind: 'known' })
    expect(entries.put({ key: 'a', revision: 6, text: null })).toEqual({ kind: 'known' })
    expect(entries.find('ak_new', NOW_MS)).toMatchObject({ appId: 'a' })
    entries.outdate()
    entries.put(entry(record('a', 'ak_old'), 1))
    expect(entries.find('ak_new', NOW_MS)).toBe('unknown')
    expect(entries.find('ak_old', NOW_MS)).toMatchObject({ appId: 'a' })
  })

  it('that a complete reading did not contain are missing, and stay', () => {
    const entries = new AppIndex()
    for (const [at, id] of ['a', 'b', 'c'].entries()) entries.put(entry(record(id, `ak_${id}`), at + 1))
    entries.beginReading()
    entries.put(entry(record('b', 'ak_b'), 2))
    entries.put({ key: 'c', revision: 4, text: null })
    expect(entries.missing()).toEqual(['a'])
    expect(entries.find('ak_a', NOW_MS)).toMatchObject({ appId: 'a' })
    expect(entries.find('ak_c', NOW_MS)).toBe('unknown')
  })
})
