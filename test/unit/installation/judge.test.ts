// What a look at a store means, and what is remembered of it.

import { expect, it } from 'vitest'
import { judge, type Look, NOTHING, type StoreMemory } from '../../../src/installation/judge.ts'
import type { KnownStore, StoreName } from '../../../src/installation/record.ts'
import type { StoredState } from '../../../src/nats/stored-state.ts'

const NOW_MS = Date.UTC(2026, 10, 23, 12)
const AT_MS = 5_000_000
const HERE: StoredState = {
  createdAt: '2026-11-01T00:00:00Z',
  messages: 10,
  firstSequence: 91,
  lastSequence: 100,
  firstAtMs: NOW_MS - 7_200_000,
  lastAtMs: NOW_MS - 3_600_000,
  keepMs: null,
}
const SHORTER = { ...HERE, messages: 9, lastSequence: 99 }
const OTHER = { ...HERE, createdAt: '2026-11-23T00:00:00Z', messages: 2, lastSequence: 2, firstSequence: 1 }
const known = (generation: number, of: StoredState = HERE): KnownStore => ({ ...of, generation })
const REMEMBERED: StoreMemory = { ...NOTHING, known: known(7) }
const MISSED: StoreMemory = { ...REMEMBERED, missingSinceMs: AT_MS - 15_000 }

type Case = [
  what: string,
  given: { name?: StoreName; memory?: StoreMemory } & Partial<Look>,
  loss: string | null,
  memory: StoreMemory,
]

it.each<Case>([
  ['the first look', { memory: NOTHING }, null, { ...NOTHING, known: known(NOW_MS) }],
  ['the first look where nothing is', { memory: NOTHING, seen: null }, null, NOTHING],
  [
    'the first look beside what others know',
    { memory: NOTHING, others: known(9) },
    null,
    { ...NOTHING, known: known(9) },
  ],
  ['the same as before', {}, null, REMEMBERED],
  ['the same, which others say is newer', { others: known(9) }, null, { ...NOTHING, known: known(9) }],
  [
    'an empty one that was made again',
    { memory: { ...NOTHING, known: known(7, { ...HERE, messages: 0 }) }, seen: OTHER },
    null,
    { ...NOTHING, known: known(NOW_MS, OTHER) },
  ],
  ['less than before, for now', { seen: SHORTER }, null, { ...REMEMBERED, missingSinceMs: AT_MS }],
  ['nothing, for now', { seen: null }, null, { ...REMEMBERED, missingSinceMs: AT_MS }],
  ['less again after it was all there', { memory: MISSED }, null, REMEMBERED],
  [
    'less for almost 15 s',
    { memory: { ...MISSED, missingSinceMs: AT_MS - 14_999 }, seen: SHORTER },
    null,
    { ...MISSED, missingSinceMs: AT_MS - 14_999 },
  ],
  [
    'less for 15 s',
    { memory: MISSED, seen: SHORTER },
    'shorter',
    { known: known(NOW_MS, SHORTER), reported: 7, missingSinceMs: null },
  ],
  ['nothing for 15 s', { memory: MISSED, seen: null }, 'absent', { ...MISSED, reported: 7 }],
  ['nothing, which was reported', { memory: { ...MISSED, reported: 7 }, seen: null }, null, { ...MISSED, reported: 7 }],
  ['another one', { seen: OTHER }, 'new', { ...NOTHING, known: known(NOW_MS, OTHER), reported: 7 }],
  [
    'another one, made by a clock that is ahead',
    { memory: { ...NOTHING, known: known(NOW_MS + 50) }, seen: OTHER },
    'new',
    { ...NOTHING, known: known(NOW_MS + 51, OTHER), reported: NOW_MS + 50 },
  ],
  [
    'another one, which others know',
    { seen: OTHER, others: known(8, OTHER) },
    'new',
    { ...NOTHING, known: known(8, OTHER), reported: 7 },
  ],
  ['other messages', { isOverwritten: true }, 'overwritten', { ...NOTHING, known: known(NOW_MS), reported: 7 }],
  [
    'other messages than others know',
    { memory: NOTHING, others: known(9), isOverwritten: true },
    'overwritten',
    { ...NOTHING, known: known(NOW_MS), reported: 9 },
  ],
  ['another bucket of app records', { name: 'apps', seen: OTHER }, 'new', { ...REMEMBERED, reported: 7 }],
  [
    'another bucket of app records, which somebody has adopted',
    { name: 'apps', memory: { ...REMEMBERED, reported: 7 }, seen: OTHER, others: known(8, OTHER) },
    null,
    { ...NOTHING, known: known(8, OTHER), reported: 7 },
  ],
])('%s', (_, { name = 'stream', memory = REMEMBERED, ...changes }, loss, remembered) => {
  const look = { seen: HERE, others: undefined, isOverwritten: false, nowMs: NOW_MS, atMs: AT_MS, ...changes }
  expect(judge(name, memory, look)).toEqual({ memory: remembered, loss })
})
