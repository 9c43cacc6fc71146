// What counts as a loss of a store, and which of several records of what was there holds.

import { describe, expect, it } from 'vitest'
import { lossText } from '../../../src/installation/loss-text.ts'
import { type KnownStore, lossOf, newestOf, newestStores, parseRecord } from '../../../src/installation/record.ts'
import type { StoredState } from '../../../src/nats/stored-state.ts'

const HOUR_MS = 3_600_000
const NOW_MS = Date.UTC(2026, 10, 23, 12)

const state = (changes: Partial<StoredState> = {}): StoredState => ({
  createdAt: '2026-11-01T00:00:00Z',
  messages: 10,
  firstSequence: 91,
  lastSequence: 100,
  firstAtMs: NOW_MS - 2 * HOUR_MS,
  lastAtMs: NOW_MS - HOUR_MS,
  keepMs: 72 * HOUR_MS,
  ...changes,
})
const known = (changes: Partial<KnownStore> = {}): KnownStore => ({ ...state(), generation: 1, ...changes })
const OTHER = '2026-11-23T00:00:00Z'

describe('a stream', () => {
  const loss = (seen: StoredState | null, was = state()) => lossOf('stream', was, seen, NOW_MS)

  it('that is the same, has grown, or has lost its oldest messages to their age or a purge, has lost nothing', () => {
    expect(loss(state())).toBeNull()
    expect(loss(state({ messages: 20, lastSequence: 110 }))).toBeNull()
    expect(loss(state({ messages: 1, firstSequence: 100 }))).toBeNull()
    expect(loss(state({ messages: 30, firstSequence: 100, lastSequence: 129 }))).toBeNull()
  })

  it('that is gone, new, shorter or emptied has lost what was in it', () => {
    expect(loss(null)).toBe('absent')
    expect(loss(state({ createdAt: OTHER, messages: 500, lastSequence: 500 }))).toBe('new')
    expect(loss(state({ lastSequence: 99 }))).toBe('shorter')
    expect(loss(state({ messages: 0, firstSequence: 101 }))).toBe('emptied')
    expect(loss(state({ messages: 5, firstSequence: 101, lastSequence: 105 }))).toBe('emptied')
  })

  it('whose last message was old enough to go was not emptied', () => {
    const emptied = { messages: 0, firstSequence: 101, keepMs: HOUR_MS }
    expect(loss(state(emptied), state({ lastAtMs: NOW_MS - 0.8 * HOUR_MS }))).toBe('emptied')
    expect(loss(state(emptied), state({ lastAtMs: NOW_MS - 0.95 * HOUR_MS }))).toBeNull()
    expect(loss(state({ ...emptied, keepMs: null }), state({ lastAtMs: 0 }))).toBe('emptied')
  })

  it('that was empty has nothing to lose', () => {
    const empty = state({ messages: 0, firstSequence: 101 })
    expect(loss(null, empty)).toBeNull()
    expect(loss(state({ createdAt: OTHER }), empty)).toBeNull()
  })
})

describe('a bucket', () => {
  it('has lost nothing when entries replace each other, and everything when none is left', () => {
    const replaced = state({ firstSequence: 101, lastSequence: 110 })
    for (const name of ['apps', 'counts'] as const) {
      expect(lossOf(name, state(), replaced, NOW_MS)).toBeNull()
      expect(lossOf(name, state(), state({ messages: 0 }), NOW_MS)).toBe('emptied')
      expect(lossOf(name, state(), state({ createdAt: OTHER, messages: 9 }), NOW_MS)).toBe('new')
    }
  })

  it('of app records that is new and has as many was brought back', () => {
    const back = state({ createdAt: OTHER, messages: 10 })
    expect(lossOf('apps', state(), back, NOW_MS)).toBeNull()
    expect(lossOf('counts', state(), back, NOW_MS)).toBe('new')
  })
})

describe('of several records', () => {
  it('the newer generation of a store holds, and of one generation the one that has seen more', () => {
    const [old, more, newer] = [known(), known({ lastSequence: 200 }), known({ generation: 2, lastSequence: 5 })]
    expect(newestOf(undefined, old, more)).toBe(more)
    expect(newestOf(newer, more, undefined)).toBe(newer)
    expect(newestOf(undefined)).toBeUndefined()
    expect(newestStores({ stream: old, apps: newer }, undefined, { apps: old, counts: more })).toEqual({
      stream: old,
      apps: newer,
      counts: more,
    })
  })

  it('one that is not a record of this version counts for nothing', () => {
    const record = { v: 1, writtenAtMs: NOW_MS, partitions: 16, stores: { stream: known() } }
    expect(parseRecord(JSON.stringify(record))).toEqual(record)
    expect(parseRecord(JSON.stringify({ ...record, partitions: null }))).not.toBeNull()
    for (const bad of [
      null,
      '',
      '{',
      '[]',
      'null',
      JSON.stringify({ ...record, v: 2 }),
      JSON.stringify({ ...record, partitions: '16' }),
      JSON.stringify({ ...record, stores: undefined }),
      JSON.stringify({ ...record, stores: { apps: { ...known(), messages: '3' } } }),
    ])
      expect(parseRecord(bad), String(bad)).toBeNull()
  })
})

describe('the line of a loss', () => {
  it('says how many, from when to when, what clients notice and what to do', () => {
    expect(lossText('stream', 'new', state(), state({ createdAt: OTHER }))).toBe(
      'the stream SLUICE_EVENTS is a new one: 10 messages, stored from 2026-11-23T10:00:00.000Z to 2026-11-23T11:00:00.000Z, are gone; clients notice nothing, and consumers do not get what they had not read; unless it was meant, bring it back from a backup (docs/runbooks.md, SluiceStoreLost)',
    )
    const shorter = state({ lastSequence: 99, lastAtMs: NOW_MS - 1.5 * HOUR_MS })
    expect(lossText('stream', 'shorter', state(), shorter)).toContain(
      'has lost its end: the last 1 message, stored from 2026-11-23T10:30:00.000Z to 2026-11-23T11:00:00.000Z, are gone; ',
    )
    expect(lossText('stream', 'shorter', state(), state({ lastSequence: 0, lastAtMs: null }))).toContain(
      'the last 10 messages, stored from 2026-11-23T10:00:00.000Z to ',
    )
    expect(lossText('apps', 'absent', state(), null)).toMatch(
      /^the bucket SLUICE_APPS is gone: 10 app records, .*adopt-empty/,
    )
  })
})
