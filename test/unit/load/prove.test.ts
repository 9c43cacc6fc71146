// What `npm run prove` runs next, and what its page says.

import { describe, expect, test } from 'vitest'
import { type Kind, kinds } from '../../../load/prove/kinds.js'
import { choose, type Entry, nextOf, page, withRun } from '../../../load/prove/ledger.js'

const kindOf = (name: string, more: Partial<Kind> = {}): Kind => ({
  name,
  unit: 'histories',
  share: 1,
  amount: 10,
  step: 10,
  rooms: ['queue'],
  args: () => [],
  ...more,
})
const entryOf = (kind: string, more: Partial<Entry> = {}): Entry => ({
  kind,
  hash: 'now',
  commit: 'c1',
  amount: 10,
  unit: 'histories',
  cpuSeconds: 60,
  next: 11,
  found: [],
  ...more,
})
const always = (): string => 'now'

test('what has had the least of its share comes next', () => {
  const two = [kindOf('a', { share: 4 }), kindOf('b')]
  expect(choose(two, [entryOf('a', { cpuSeconds: 100 }), entryOf('b', { cpuSeconds: 30 })], always)?.name).toBe('a')
  expect(choose(two, [entryOf('a', { cpuSeconds: 200 }), entryOf('b', { cpuSeconds: 30 })], always)?.name).toBe('b')
})

test('time on other files of its rooms does not count for these', () => {
  const two = [kindOf('a'), kindOf('b')]
  expect(choose(two, [entryOf('a', { hash: 'before' }), entryOf('b', { cpuSeconds: 1 })], always)?.name).toBe('a')
})

describe('where a kind goes on', () => {
  test('a seed is used once, on whatever files', () => {
    expect(nextOf([entryOf('a', { hash: 'before', next: 71 })], kindOf('a'), 'now')).toBe(71)
    expect(nextOf([], kindOf('a'), 'now')).toBe(1)
  })

  test('a list begins anew with each state of the files, and ends', () => {
    const bugs = kindOf('bugs', { most: 5 })
    expect(nextOf([entryOf('bugs', { hash: 'before', next: 5 })], bugs, 'now')).toBe(0)
    expect(choose([bugs], [entryOf('bugs', { next: 5 })], always)).toBeUndefined()
  })
})

test('runs of one kind on the same files are one line, with all that they found', () => {
  const first = withRun([], entryOf('a', { found: ['npm run x'] }))
  expect(withRun(first, entryOf('a', { commit: 'c2', next: 21 }))).toEqual([
    entryOf('a', { commit: 'c2', amount: 20, cpuSeconds: 120, next: 21, found: ['npm run x'] }),
  ])
  expect(withRun(first, entryOf('a', { hash: 'later' }))).toHaveLength(2)
})

test('the page tells the hours of all files from those of these, and names what was found', () => {
  const entries = [
    entryOf('simulate nats', { cpuSeconds: 3600 }),
    entryOf('simulate nats', { hash: 'before', cpuSeconds: 7200, found: ['npm run simulate -- --seed 5'] }),
  ]
  const text = page(entries, always)
  expect(text).toContain('3.0 core-hours, 1.0 of them on the files as they are')
  expect(text).toContain('|simulate nats|20|10 histories|180|60|c1|now|`npm run simulate -- --seed 5`|')
  expect(page(entries.slice(0, 1), always)).toContain('|simulate nats|10|10 histories|60|60|c1|now|nothing|')
  expect(page(entries.slice(1), always)).toContain('|simulate nats|10|0 histories|120|0|c1|before|')
})

test('every planted bug is in one of the runs, and each kind has a name of its own', () => {
  const all = kinds('/node', 'v0.3.0')
  expect(new Set(all.map(({ name }) => name)).size).toBe(all.length)
  const bugs = all.find(({ name }) => name === 'planted bugs')
  const { most = 0, amount = 0 } = bugs ?? {}
  const names: string[] = []
  for (let from = 0; from < most; from += amount) names.push(...(bugs?.args(from).at(-1) ?? '').split(','))
  expect(most).toBeGreaterThan(100)
  expect(new Set(names).size).toBe(most)
})
