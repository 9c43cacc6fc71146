import { describe, expect, it } from 'vitest'
import { createClock } from '../../clients/typescript/src/clock.ts'
import { createDouble } from './support/double.ts'
import { createPage } from './support/page.ts'
import { createRig, DatedTimers, mapStore, trackMany, waiting } from './support/rig.ts'

const SECOND_MS = 1000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS
const YEAR_MS = 365 * 24 * HOUR_MS

describe('a refused batch', () => {
  it('on 400, drops the offenders that `errors` names and sends the others at once under a new key', async () => {
    const { client, timers, double, dropped } = createRig()
    for (const name of ['a', 'b', 'c', 'd']) client.track(name, name === 'b' || name === 'd' ? { bad: 'name' } : {})
    await timers.pass(3 * SECOND_MS)
    expect(dropped).toMatchObject([{ reason: 'invalid', names: ['b', 'd'] }])
    expect(double.requests.map((request) => request.body.events.map((event) => event.name).join(''))).toEqual([
      'abcd',
      'ac',
    ])
    expect(double.requests[0].key).not.toBe(double.requests[1].key)
    expect(double.requests[0].body.events[0].event_id).toBe(double.requests[1].body.events[0].event_id)
  })

  it.each([
    ['`invalid_events` has all', {}, 1],
    ['only `message` names one', { withoutErrors: true }, 91],
  ])('on 400, drops all of 90 offenders where %s', async (_, service, requests) => {
    const { client, timers, double, dropped } = createRig({ service })
    for (let index = 0; index < 100; index++)
      client.track(`event ${index}`, index % 10 === 0 ? {} : { bad: 'context.os' })
    await timers.pass(3 * SECOND_MS)
    expect(double.requests.length).toBeLessThanOrEqual(requests + 1)
    expect(dropped.flatMap((drop) => drop.ids)).toHaveLength(90)
    expect(double.storedIds()).toHaveLength(10)
  })

  it('on 400, drops all where the fault is not an event', async () => {
    const bodies = [
      { error: 'invalid_json', message: 'body: not valid JSON at byte 55' },
      { error: 'validation_failed', message: 'app_key: required', errors: [{ path: 'app_key', message: 'required' }] },
      { error: 'validation_failed', message: 'events[7].name: required' },
      { error: 'validation_failed', errors: [null] },
      'a proxy says no',
    ]
    for (const body of bodies) {
      const { client, timers, double, dropped, store } = createRig()
      double.behave({ status: 400, body })
      client.track('signup')
      await timers.pass(MINUTE_MS)
      expect(double.requests).toHaveLength(1)
      expect(dropped).toMatchObject([{ reason: 'invalid', names: ['signup'] }])
      expect(waiting(store)).toEqual([])
    }
  })

  it('on 400 without `invalid_events`, goes whole and at once, though an error names an event of several', async () => {
    const { client, timers, double, dropped } = createRig()
    const errors = [{ path: 'sdk_version' }, { path: 'events[0].name' }]
    double.always({ status: 400, body: { error: 'validation_failed', message: 'sdk_version: type', errors } })
    trackMany(client, 3)
    await timers.pass(MINUTE_MS)
    expect(double.requests).toHaveLength(1)
    expect(dropped).toMatchObject([{ reason: 'invalid', names: ['event 0', 'event 1', 'event 2'] }])
  })

  it('on 413, is sent in halves, and a single event that is too large is dropped', async () => {
    const { client, timers, double, dropped } = createRig({ service: { maxBytes: 4000 } })
    for (let index = 0; index < 11; index++)
      client.track(`event ${index}`, { text: 'x'.repeat(index === 5 ? 5000 : 600) })
    await timers.pass(3 * SECOND_MS)
    expect(dropped).toMatchObject([{ reason: 'too_large', names: ['event 5'] }])
    expect(double.storedIds()).toHaveLength(10)
    expect(new Set(double.storedIds()).size).toBe(10)
  })

  it('on 429, is sent in halves where it is larger than the minute of the app', async () => {
    const { client, timers, double } = createRig()
    // Every 429 says what is left of the minute. One half fits into it.
    const headers = { 'Retry-After': '20', 'X-RateLimit-Limit': '60', RateLimit: '"minute";r=60;t=20' }
    double.behave({ status: 429, headers })
    trackMany(client, 100)
    await timers.pass(0)
    expect(double.requests.map((request) => request.body.events.length)).toEqual([100, 50, 50])
  })

  it('reports a drop once, though the batch had a report of its own', async () => {
    const { client, timers, double } = createRig({ beforeSend: (event) => (event.name === 'secret' ? null : event) })
    client.track('secret')
    client.track('good')
    client.track('bad', { bad: 'name' })
    await timers.pass(3 * SECOND_MS)
    client.track('next')
    await timers.pass(3 * SECOND_MS)
    const reports = [...double.stored.values()].map((body) => body.client_report?.dropped)
    expect(reports).toEqual([{ before_send: 1 }, { invalid: 1 }])
  })
})

describe('a replay', () => {
  it('of other events means that the batch was not stored: it is reported, once, and not sent again', async () => {
    const { client, timers, double, dropped, store } = createRig()
    double.behave('key taken')
    client.track('signup')
    await timers.pass(HOUR_MS)
    expect(dropped).toMatchObject([{ reason: 'key_reused', names: ['signup'] }])
    expect(double.requests).toHaveLength(1)
    expect(waiting(store)).toEqual([])
    client.track('next')
    await timers.pass(3 * SECOND_MS)
    expect(double.requests[1].body).toMatchObject({
      client_report: { dropped: { key_reused: 1 } },
      events: [{ name: 'next' }],
    })
  })

  it('of other events keeps what the batch reported', async () => {
    const { client, timers, double } = createRig({ beforeSend: (event) => (event.name === 'secret' ? null : event) })
    double.behave('key taken')
    for (const name of ['secret', 'good']) client.track(name)
    await timers.pass(3 * SECOND_MS)
    client.track('next')
    await timers.pass(3 * SECOND_MS)
    expect(double.requests[1].body.client_report).toEqual({ dropped: { before_send: 1, key_reused: 1 } })
  })

  it.each([
    ['same', { 'Sluice-Replay': 'same' }],
    ['unknown', { 'Sluice-Replay': 'unknown' }],
    ['none, as of an older service', {}],
  ])('that says %s means that the batch is stored', async (_, headers: Record<string, string>) => {
    const { client, timers, double, dropped, store } = createRig()
    double.behave({ status: 202, headers, body: { status: 'accepted', events: 1, deduplicated: true } })
    client.track('signup')
    await timers.pass(HOUR_MS)
    expect(double.requests).toHaveLength(1)
    expect(dropped).toEqual([])
    expect(waiting(store)).toEqual([])
  })

  it('of its own batch, whose first answer was lost, is not reported', async () => {
    const { client, timers, double, dropped } = createRig()
    double.behave('lose answer')
    client.track('signup')
    await timers.pass(60 * SECOND_MS)
    expect(double.requests.map(({ key }) => key)).toEqual([double.requests[0].key, double.requests[0].key])
    expect(double.storedIds()).toHaveLength(1)
    expect(dropped).toEqual([])
  })
})

describe('a machine that slept while a request was under way', () => {
  it.each([15, 120, 3 * 1440, 6 * 1440])('for %i minutes learns no wrong time from its answer', async (minutes) => {
    const timers = new DatedTimers()
    const double = createDouble({ nowMs: () => timers.nowMs() })
    const answerAtOnce = double.fetch
    let wake = (): void => {}
    const { client, dropped } = createRig({
      timers,
      double: {
        ...double,
        // The service answers at once; the answer is read when the machine wakes up.
        fetch: async (url, init) => {
          const answer = await answerAtOnce(url, init)
          if (double.requests.length === 1) await new Promise<void>((resolve) => void (wake = resolve))
          return answer
        },
      },
    })
    client.track('before')
    await timers.pass(3 * SECOND_MS)
    timers.block(minutes * MINUTE_MS)
    wake()
    // What is sealed next has no later answer to learn from.
    await new Promise((resolve) => setImmediate(resolve))
    client.track('after')
    await timers.pass(MINUTE_MS)
    const [, after] = [...double.stored.values()].flatMap(({ events }) => events)
    expect(after).toMatchObject({ name: 'after' })
    expect(after).not.toHaveProperty('clock_correction_ms')
    expect(dropped).toEqual([])
  })
})

describe('a slow answer', () => {
  it.each([
    [310_000, 0, '310000'],
    [310_000, 19, '310000'],
    [310_000, 29, null],
    [290_000, 0, null],
    [-310_000, 19, '-310000'],
    [-310_000, 29, null],
  ])('of a service that is %i ms ahead, after %i s: learnt is %s', (aheadMs, tookSeconds, learnt) => {
    const store = mapStore()
    const tookMs = tookSeconds * SECOND_MS
    createClock(store).learn(tookMs / 2 + aheadMs, 0, tookMs)
    expect(store.get('clock')).toBe(learnt)
  })

  it('forgets no correction that it cannot tell to be wrong', () => {
    const store = mapStore(new Map([['clock', '310000']]))
    const clock = createClock(store)
    clock.learn(10 * SECOND_MS + 295_000, 0, 20 * SECOND_MS)
    expect(store.get('clock')).toBe('310000')
    clock.learn(1 * SECOND_MS, 0, 2 * SECOND_MS)
    expect(store.get('clock')).toBeNull()
  })
})

describe('a clock that was corrected', () => {
  it('stays so after an answer that was read late', async () => {
    const store = mapStore()
    const timers = new DatedTimers()
    const { client, double } = createRig({ store, timers, service: { aheadMs: 10 * MINUTE_MS } })
    client.track('first')
    await timers.pass(3 * SECOND_MS)
    expect(store.get('clock')).toBe(String(10 * MINUTE_MS))
    const { fetch } = double
    let wake = (): void => {}
    const late = createRig({
      store,
      timers,
      double: {
        ...double,
        fetch: async (url, init) => {
          const answer = await fetch(url, init)
          await new Promise<void>((resolve) => void (wake = resolve))
          return answer
        },
      },
    })
    late.client.track('second')
    await timers.pass(3 * SECOND_MS)
    timers.block(20 * MINUTE_MS)
    wake()
    await new Promise((resolve) => setImmediate(resolve))
    expect(store.get('clock')).toBe(String(10 * MINUTE_MS))
  })
})

describe('what never gets an answer', () => {
  it('calls onHeld from the second try in a row on, and stays', async () => {
    const held: string[] = []
    const { client, timers, double, dropped } = createRig({
      onHeld: (reason, events) => held.push(`${reason}: ${events.map(({ name }) => name).join()}`),
    })
    double.behave('unreachable', 'answer', 'unreachable', 'unreachable', 'unreachable')
    client.track('first')
    await timers.pass(10 * SECOND_MS)
    expect(held).toEqual([])
    client.track('second')
    await timers.pass(30 * SECOND_MS)
    expect(held).toEqual(['no_answer: second', 'no_answer: second'])
    expect(double.storedIds()).toHaveLength(2)
    expect(dropped).toEqual([])
  })

  it('is no news while the browser says that it is offline', async () => {
    const held: string[] = []
    const { client, timers, double } = createRig({
      page: createPage({ onLine: false }),
      onHeld: (reason) => held.push(reason),
    })
    double.always('unreachable')
    client.track('signup')
    await timers.pass(MINUTE_MS)
    expect(double.requests.length).toBeGreaterThan(2)
    expect(held).toEqual([])
  })
})

describe('a clock that is off', () => {
  it.each([4 * MINUTE_MS, -4 * MINUTE_MS])('by %i ms is left alone', async (aheadMs) => {
    const { client, timers, double } = createRig({ service: { aheadMs } })
    for (let batch = 0; batch < 2; batch++) {
      client.track('signup')
      await timers.pass(3 * SECOND_MS)
    }
    for (const { body } of double.requests) expect(body.events[0]).not.toHaveProperty('clock_correction_ms')
  })

  it.each([10 * MINUTE_MS, -10 * MINUTE_MS])(
    'by %i ms is corrected from the first answer on; both times stay',
    async (aheadMs) => {
      const { client, timers, double } = createRig({ service: { aheadMs } })
      for (let batch = 0; batch < 2; batch++) {
        client.track('signup')
        await timers.pass(3 * SECOND_MS)
      }
      const event = double.requests[1].body.events[0]
      expect(event.client_timestamp).toBe('2026-11-20T12:00:03.000Z')
      expect(event.clock_correction_ms).toBe(aheadMs)
      expect(Date.parse(event.timestamp)).toBe(Date.parse(event.client_timestamp!) + aheadMs)
    },
  )

  it.each([2 * YEAR_MS, -2 * YEAR_MS])('by %i ms costs no event: the refused batch is corrected', async (aheadMs) => {
    const { client, timers, double, dropped } = createRig({ service: { aheadMs } })
    trackMany(client, 50)
    await timers.pass(30 * SECOND_MS)
    expect(dropped).toEqual([])
    expect(double.storedIds()).toHaveLength(50)
    for (const event of [...double.stored.values()].flatMap((body) => body.events))
      expect(Date.parse(event.timestamp) - Date.parse(event.client_timestamp!)).toBe(aheadMs)
  })

  it('is known to the next client of the store, and forgotten when it is right again', async () => {
    const store = mapStore()
    const first = createRig({ store, service: { aheadMs: 10 * MINUTE_MS } })
    first.client.track('signup')
    await first.client.close()
    const timers = new DatedTimers()
    const second = createRig({ store, timers, double: createDouble({ nowMs: () => timers.nowMs() }) })
    for (const name of ['early', 'late']) {
      second.client.track(name)
      await second.client.flush()
    }
    const [early, late] = second.double.requests.map((request) => request.body.events[0])
    expect(early.clock_correction_ms).toBe(10 * MINUTE_MS)
    expect(late).not.toHaveProperty('clock_correction_ms')
  })

  it('is corrected once: a server that refuses that too gets its way', async () => {
    const { client, timers, double, dropped } = createRig({ service: { aheadMs: 2 * YEAR_MS } })
    const error = { path: 'events[0].timestamp', message: 'must lie between' }
    double.always({
      status: 400,
      body: { error: 'validation_failed', message: 'events[0].timestamp', errors: [error], invalid_events: [0] },
    })
    client.track('signup')
    await timers.pass(MINUTE_MS)
    expect(double.requests).toHaveLength(2)
    expect(dropped).toMatchObject([{ reason: 'invalid' }])
  })
})

describe('a batch of a page that may not send', () => {
  const refusal = {
    status: 401,
    body: { error: 'invalid_app_key', message: 'app_key: the page may not send with this key' },
  }

  it('is kept and reported at each try, and is stored once the page may', async () => {
    const held: string[][] = []
    const onHeld = (_: string, events: readonly { name: string }[]) => held.push(events.map(({ name }) => name))
    const { client, timers, double, dropped, tracked } = createRig({ onHeld })
    double.always(refusal)
    client.track('signup')
    await timers.pass(30 * SECOND_MS)
    expect(held.length).toBeGreaterThan(1)
    expect(held).toEqual(double.requests.map(() => ['signup']))
    expect(dropped).toEqual([])
    double.always('answer')
    await timers.pass(HOUR_MS)
    expect(double.storedIds()).toEqual(tracked)
  })

  it('is kept where the hook throws', async () => {
    const onHeld = () => {
      throw new Error('a fault of the page')
    }
    const { client, timers, double, tracked } = createRig({ onHeld })
    double.behave(refusal)
    client.track('signup')
    await timers.pass(MINUTE_MS)
    expect(double.storedIds()).toEqual(tracked)
  })
})

it.each([
  ['"minute";r=200;t=40', 20 * SECOND_MS],
  ['"month";r=1;t=86400, "minute";r=200;t=40, "day";r=1;t=400', 20 * SECOND_MS],
  ['"minute";r=0;t=7', 7 * SECOND_MS],
  ['"minute";r=50;t=9', 9 * SECOND_MS],
  ['"minute";r=0;t=99999', MINUTE_MS],
  ['"month";r=1;t=864000', 0],
  ['nonsense', 0],
])('after an answer with RateLimit: %s the next batch waits its share of the minute', async (header, waitMs) => {
  const { client, timers, double, dropped } = createRig()
  double.behave({ status: 202, headers: { RateLimit: header }, body: {} })
  trackMany(client, 200)
  await timers.pass(2 * MINUTE_MS)
  const [first, second] = double.requests
  expect(second.atMs - first.atMs).toBe(waitMs)
  expect(first.body.events).toHaveLength(100)
  expect(double.requests).toHaveLength(2)
  expect(dropped).toEqual([])
})
