import { expect, it } from 'vitest'
import { MAX_PORTAL_STREAMS, PortalBounds } from '../../../src/console/portal-bounds.ts'

it('gives a node 200 streams, whosever they are, and the place of one that ended to the next', () => {
  const bounds = new PortalBounds(() => 0)
  const keys = Array.from({ length: 100 }, (_, index) => `key ${index}`)
  const ends = keys.flatMap((key) => [bounds.stream(key), bounds.stream(key)])
  expect(ends.filter((end) => typeof end === 'function')).toHaveLength(200)
  expect(MAX_PORTAL_STREAMS).toBe(200)
  expect(bounds.stream('another')).toBe(5)
  const [end] = ends
  if (typeof end === 'function') end()
  expect(bounds.stream('another')).toBeTypeOf('function')
  expect(bounds.stream('one more')).toBe(5)
})

it('counts requests and searches of each key apart, and anew after a minute', () => {
  let nowMs = 0
  const bounds = new PortalBounds(() => nowMs)
  const times = (count: number, ask: () => number) => Array.from({ length: count }, ask)
  expect(times(60, () => bounds.request('one')).every((seconds) => seconds === 0)).toBe(true)
  expect(times(6, () => bounds.search('one')).every((seconds) => seconds === 0)).toBe(true)
  nowMs = 20_500
  expect([bounds.request('one'), bounds.search('one'), bounds.request('other'), bounds.search('other')]).toEqual([
    40, 40, 0, 0,
  ])
  nowMs = 60_000
  expect([bounds.request('one'), bounds.search('one')]).toEqual([0, 0])
})

it('forgets no key that has a stream or asked within the minute, however many others come', () => {
  let nowMs = 0
  const bounds = new PortalBounds(() => nowMs)
  for (const _ of [1, 2]) bounds.stream('watching')
  nowMs = 100_000
  for (let at = 0; at < 60; at++) bounds.request('asking')
  for (let at = 0; at < 3000; at++) bounds.request(`key ${at}`)
  expect(bounds.stream('watching')).toBe(5)
  expect(bounds.request('asking')).toBeGreaterThan(0)
})
