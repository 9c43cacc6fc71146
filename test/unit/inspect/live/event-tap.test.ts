import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { EventFilter, Rate } from '../../../../src/contract/admin/peers.ts'
import { eventsOf } from '../../../../src/contract/record/record-events.ts'
import { readEventFilter } from '../../../../src/inspect/live/event-filter.ts'
import { EventTaps } from '../../../../src/inspect/live/event-tap.ts'
import { ManualTimers } from '../../../support/timers.ts'
import { storedBatch } from '../reports.ts'

type Members = Record<string, unknown>

const ANY: EventFilter = { app: null, type: null, name: null, user: null }

/** A record's line, with each event as text. */
function lineOf(events: readonly string[], appId = 'shop', more = ''): Buffer {
  const head = `{"v":1,"batch_id":"b-1","app_id":"${appId}","received_at":"2026-11-22T10:00:00.000Z"${more}`
  return Buffer.from(`${head},"events":[${events.join(',')}]}\n`)
}

function event(name: string, type = 'track', more: Members = {}): string {
  return JSON.stringify({ type, name, ...more })
}

class Stage {
  readonly timers = new ManualTimers()
  readonly faults: unknown[] = []
  readonly taps = new EventTaps({ node: 'n1', timers: this.timers, onFault: (error) => this.faults.push(error) })

  watch(filter: Partial<EventFilter> = {}) {
    const told: (string | Rate)[] = []
    let since: number | undefined
    const ask = (): typeof told => {
      const { next, kept } = this.taps.taps.ask({ ...ANY, ...filter }, since)
      since = next
      told.push(...kept)
      return told
    }
    ask()
    const shown = () => ask().flatMap((one) => (typeof one === 'string' ? [JSON.parse(one) as Members] : []))
    return {
      shown,
      rates: () => ask().filter((one) => typeof one !== 'string'),
      names: () => shown().map(({ event: one }) => (one as Members)['name']),
    }
  }

  store(events: readonly string[], appId = 'shop', more = ''): void {
    const types = events.map((text) => (JSON.parse(text) as Members)['type'])
    const count = (type: string): number => types.filter((one) => one === type).length
    this.taps.onStored?.({
      ...storedBatch(lineOf(events, appId, more), appId),
      track: count('track'),
      screen: count('screen'),
      revenue: count('revenue'),
    })
  }
}

describe('the tap', () => {
  it('is null while nobody watches, and again six seconds after all have left', async () => {
    const { taps, timers } = new Stage()
    expect(taps.onStored).toBe(null)
    for (const filter of [ANY, { ...ANY, app: 'a' }]) taps.taps.ask(filter, undefined)
    await timers.pass(5000)
    expect(taps.onStored).not.toBe(null)
    taps.taps.ask(ANY, undefined)
    await timers.pass(5000)
    expect(taps.onStored).not.toBe(null)
    await timers.pass(1000)
    expect(taps.onStored).toBe(null)
  })

  it('shows an event as it was sent, with its batch', () => {
    const stage = new Stage()
    const watch = stage.watch()
    const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    stage.store([event('a', 'track', { n: 1 }), event('b')], 'shop', `,"sdk_version":"2.\\"1","trace":"${trace}"`)
    const batch = {
      batch_id: 'b-1',
      app_id: 'shop',
      received_at: '2026-11-22T10:00:00.000Z',
      sdk_version: '2."1',
      trace,
      node: 'n1',
    }
    expect(watch.shown()).toEqual([
      { ...batch, index: 0, event: { type: 'track', name: 'a', n: 1 } },
      { ...batch, index: 1, event: { type: 'track', name: 'b' } },
    ])
  })

  it('shows only events of the app, the type and the name', () => {
    const stage = new Stage()
    const app = stage.watch({ app: 'shop' })
    const type = stage.watch({ type: 'revenue' })
    const name = stage.watch({ name: 'buy' })
    const prefix = stage.watch({ name: 'b*' })
    stage.store([event('buy', 'revenue'), event('buyer'), event('see', 'screen', { name2: 'buy' })])
    stage.store([event('buy')], 'other')
    expect(app.names()).toEqual(['buy', 'buyer', 'see'])
    expect(type.names()).toEqual(['buy'])
    expect(name.names()).toEqual(['buy', 'buy'])
    expect(prefix.names()).toEqual(['buy', 'buyer', 'buy'])
  })

  it('shows only events of the user, also with a name', () => {
    const stage = new Stage()
    const user = stage.watch({ user: 'user-41' })
    const both = stage.watch({ user: 'user-4*', name: 'buy' })
    stage.store([event('buy', 'track', { user_id: 'user-41' }), event('see', 'screen', { user_id: 'user-41' })])
    stage.store([event('buy', 'track', { user_id: 'user-412' }), event('buy', 'track', { name2: 'user-41' })])
    stage.store([event('user-41'), event('buy', 'track', { user_id: 41 })])
    expect(user.names()).toEqual(['buy', 'see'])
    expect(both.names()).toEqual(['buy', 'buy'])
  })

  it('finds a name that was sent with escapes', () => {
    const stage = new Stage()
    const watch = stage.watch({ name: 'café "x"', type: 'track' })
    stage.store(['{"type":"tr\\u0061ck","name":"caf\\u00e9 \\u0022x\\u0022"}'])
    expect(watch.shown()).toHaveLength(1)
    stage.store([event('café "x"'), event('café')])
    expect(watch.shown()).toHaveLength(2)
  })

  it('shows fifty events a second, and counts all that fit', async () => {
    const stage = new Stage()
    const watch = stage.watch({ app: 'shop' })
    for (let batch = 0; batch < 100; batch++) stage.store([event('a'), event('b'), event('c')])
    expect(watch.shown()).toHaveLength(50)
    await stage.timers.pass(1000)
    expect(watch.rates()).toEqual([{ seen: 300, shown: 50, unsearched: 0 }])
    stage.store([event('a')])
    expect(watch.shown()).toHaveLength(51)
  })

  it('shows a rare event among thousands of others: the filter comes before the bound', async () => {
    const stage = new Stage()
    const watch = stage.watch({ name: 'mine' })
    for (let batch = 0; batch < 9000; batch++) stage.store([event(batch === 8000 ? 'mine' : 'other')])
    expect(watch.names()).toEqual(['mine'])
    await stage.timers.pass(1000)
    expect(watch.rates()).toEqual([{ seen: 1, shown: 1, unsearched: 0 }])
  })

  it('says how many events were not searched where too many filters by name meet too many batches', async () => {
    const stage = new Stage()
    const watches = ['a', 'b', 'c'].map((name) => stage.watch({ name }))
    for (let batch = 0; batch < 5000; batch++) stage.store([event('other')])
    await stage.timers.pass(1000)
    expect(watches.map(({ rates }) => rates()[0].unsearched).reduce((sum, count) => sum + count)).toBe(3000)
    stage.store([event('a')])
    expect(watches[0].names()).toEqual(['a'])
  })

  it('leaves the operators what they may search and read, whatever is watched on the portal', async () => {
    const stage = new Stage()
    const portal = Array.from({ length: 20 }, (_, at) => stage.watch({ app: 'shop', name: `n${at}`, portal: true }))
    const whole = stage.watch({ app: 'shop', type: 'track', portal: true })
    const own = stage.watch({ app: 'shop', name: 'mine' })
    for (let batch = 0; batch < 9000; batch++) stage.store([event(batch === 8999 ? 'mine' : 'other')])
    expect(own.names()).toEqual(['mine'])
    const large = event('large', 'track', { text: 'x'.repeat(400_000) })
    for (let batch = 0; batch < 10; batch++) stage.store([large])
    await stage.timers.pass(1000)
    expect(own.rates()[0].unsearched).toBe(0)
    expect(portal.some(({ rates }) => rates()[0].unsearched > 0)).toBe(true)
    expect(whole.rates()[0].seen).toBe(9010)
  })

  it('searches at most 128 MB a second for a name, and says how many events it left out', async () => {
    const stage = new Stage()
    const watch = stage.watch({ name: 'mine' })
    const large = event('other', 'track', { text: 'x'.repeat(500_000) })
    for (let batch = 0; batch < 300; batch++) stage.store([large])
    await stage.timers.pass(1000)
    expect(watch.rates()).toEqual([{ seen: 0, shown: 0, unsearched: 32 }])
    stage.store([event('mine')])
    expect(watch.names()).toEqual(['mine'])
  })

  it('reads at most a megabyte a second', async () => {
    const stage = new Stage()
    const watch = stage.watch({ type: 'track' })
    const large = event('large', 'track', { text: 'x'.repeat(400_000) })
    for (let batch = 0; batch < 10; batch++) stage.store([large])
    expect(watch.shown()).toHaveLength(2)
    await stage.timers.pass(1000)
    expect(watch.rates()).toEqual([{ seen: 10, shown: 2, unsearched: 0 }])
  })

  it('cuts an event beyond 64 KB to its head, with a note', () => {
    const stage = new Stage()
    const watch = stage.watch()
    stage.store([event('large', 'track', { properties: { text: 'x'.repeat(70_000) }, session_id: 's' })])
    expect(watch.shown()[0]['event']).toEqual({
      type: 'track',
      name: 'large',
      session_id: 's',
      note: expect.stringMatching(/^this event has 70\d\d\d bytes: only its head is shown$/),
    })
    stage.store([event('y'.repeat(70_000))])
    expect(watch.shown()[1]['event']).toEqual({ note: 'this event is too large to be shown' })
  })

  it('reports a fault of its own, and lets the batch be answered', () => {
    const stage = new Stage()
    stage.watch()
    stage.taps.onStored?.(storedBatch(Buffer.from('"events":[{"a":}]'), 'shop'))
    expect(stage.faults).toHaveLength(1)
  })
})

describe('the filter', () => {
  it('is read from the query, where an empty value is none', () => {
    expect(readEventFilter(new URLSearchParams('app=a&type=screen&name=n*&user=u'))).toEqual({
      app: 'a',
      type: 'screen',
      name: 'n*',
      user: 'u',
    })
    expect(readEventFilter(new URLSearchParams('app=&other=1'))).toEqual(ANY)
  })

  it('is refused with a sentence where it is wrong', () => {
    expect(readEventFilter(new URLSearchParams('type=click'))).toBe('type: must be one of track, screen, revenue')
    expect(readEventFilter(new URLSearchParams({ name: 'x'.repeat(201) }))).toMatch(/^name: must not exceed/)
  })
})

describe('the events of a record', () => {
  it('are taken out one by one, whatever strings they hold', () => {
    fc.assert(
      fc.property(
        fc.array(fc.dictionary(fc.string(), fc.jsonValue()), { maxLength: 5 }),
        fc.boolean(),
        (all, spaced) => {
          const texts = all.map((one) => JSON.stringify(one, null, spaced ? 1 : 0))
          const line = lineOf(texts, 'a', ',"sdk_version":"\\"events\\":["')
          expect(Array.from(eventsOf(line), ({ bytes }) => bytes.toString())).toEqual(texts)
        },
      ),
    )
  })
})
