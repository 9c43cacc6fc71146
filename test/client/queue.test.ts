import { describe, expect, it } from 'vitest'
import { createRig, DatedTimers, mapStore, trackMany, waiting } from './support/rig.ts'

const SECOND_MS = 1000
const HOUR_MS = 3600 * SECOND_MS

describe('the queue', () => {
  it('drops events that are 72 h old, and says so to the service', async () => {
    const { client, timers, double, dropped } = createRig()
    double.always('unreachable')
    client.track('old')
    await timers.pass(71 * HOUR_MS)
    client.track('young')
    await timers.pass(0.5 * HOUR_MS)
    expect(dropped).toEqual([])
    await timers.pass(2 * HOUR_MS)
    expect(dropped).toMatchObject([{ reason: 'expired', names: ['old'] }])
    double.always('answer')
    client.track('new')
    expect(await client.flush()).toBe(true)
    expect([...double.stored.values()].map(({ events, client_report }) => [events[0].name, client_report])).toEqual([
      ['young', undefined],
      ['new', { dropped: { expired: 1 } }],
    ])
  })

  it('drops the oldest where it grows beyond its bytes', async () => {
    const { client, timers, double, dropped, store } = createRig({ maxQueueBytes: 100_000 })
    double.always('unreachable')
    for (let batch = 0; batch < 5; batch++) {
      client.track(`batch ${batch}`, { text: 'x'.repeat(40_000) })
      await timers.pass(3 * SECOND_MS)
    }
    expect(dropped.map(({ reason, names }) => `${reason}: ${names.join()}`)).toEqual([
      'overflow: batch 0',
      'overflow: batch 1',
      'overflow: batch 2',
    ])
    expect(waiting(store)).toHaveLength(2)
  })

  it('never drops the batch that is under way for room', async () => {
    const { client, timers, double, dropped } = createRig({ maxQueueBytes: 50_000 })
    double.behave('hang')
    for (let batch = 0; batch < 3; batch++) {
      client.track(`batch ${batch}`, { text: 'x'.repeat(40_000) })
      await timers.pass(3 * SECOND_MS)
    }
    expect(dropped.map((drop) => drop.names[0])).toEqual(['batch 1'])
  })

  it('keeps in memory what the store has no room for, and loses none of it while it runs', async () => {
    const { client, timers, double, dropped, store } = createRig({ store: mapStore(new Map(), 3000) })
    double.always('unreachable')
    for (let batch = 0; batch < 4; batch++) {
      trackMany(client, 3)
      await timers.pass(3 * SECOND_MS)
    }
    expect(waiting(store).length).toBeLessThan(4)
    double.always('answer')
    expect(await client.flush()).toBe(true)
    expect(double.storedIds()).toHaveLength(12)
    expect(dropped).toEqual([])
  })

  it('sends a batch once from a store that only reads any more', async () => {
    const map = new Map<string, string>()
    const { client, timers, double } = createRig({ store: mapStore(map) })
    double.always('unreachable')
    client.track('signup')
    await client.close()
    const readOnly = { ...mapStore(map), set: () => false, remove: () => {} }
    const next = createRig({ store: readOnly, timers, double })
    double.always('answer')
    next.client.track('login')
    expect(await next.client.flush()).toBe(true)
    expect(double.storedIds()).toHaveLength(2)
    expect(double.requests).toHaveLength(3)
  })

  describe('in a store that another script clears', () => {
    it('sends what waited, of this page and of one before it, and reports what was to be reported', async () => {
      const map = new Map<string, string>()
      const timers = new DatedTimers()
      const before = createRig({ store: mapStore(map), timers })
      before.double.always('unreachable')
      before.client.track('before')
      await before.client.close()
      const { client, double, dropped } = createRig({ store: mapStore(map), timers, double: before.double })
      client.track('sealed')
      await client.flush()
      client.track('bigint', { count: 1n })
      map.clear()
      client.track('after')
      double.always('answer')
      await client.flush()
      expect(await client.flush()).toBe(true)
      const bodies = [...double.stored.values()]
      expect(bodies.flatMap(({ events }) => events.map(({ name }) => name)).toSorted()).toEqual([
        'after',
        'before',
        'sealed',
      ])
      expect(dropped).toMatchObject([{ reason: 'invalid', names: ['bigint'] }])
    })

    it('puts it back though another tab was the first to write again, and sends nothing twice', async () => {
      const map = new Map<string, string>()
      const timers = new DatedTimers()
      const [first, second] = [0, 1].map(() => createRig({ store: mapStore(map), timers }))
      first.double.always('unreachable')
      second.double.always('unreachable')
      first.client.track('first')
      await first.client.flush()
      map.clear()
      second.client.track('second')
      await second.client.flush()
      for (const { double } of [first, second]) double.always('answer')
      await first.client.flush()
      await timers.pass(60 * SECOND_MS)
      const stored = [first, second].flatMap(({ double }) => double.storedIds())
      expect(stored.toSorted()).toEqual([...first.tracked, ...second.tracked].toSorted())
    })

    it('takes a batch that another tab has sent for sent', async () => {
      const store = mapStore()
      const timers = new DatedTimers()
      const [first, second] = [0, 1].map(() => createRig({ store, timers }))
      first.double.always('unreachable')
      second.client.track('signup')
      await second.client.flush()
      first.double.always('answer')
      await timers.pass(60 * SECOND_MS)
      expect(first.double.storedIds()).toEqual(second.tracked)
      expect(second.double.requests).toEqual([])
    })
  })

  it.each(['{"half', '{}', '[{"key":"k"}]', '[1, null]', '[{"key":"k","body":"{"}]', '"text"'])(
    'throws away %s that somebody else wrote',
    async (text) => {
      const store = mapStore(new Map([['b001795176000000-10-broken', text]]))
      const { client, double } = createRig({ store })
      client.track('signup')
      expect(await client.flush()).toBe(true)
      expect(double.storedIds()).toHaveLength(1)
      expect(waiting(store)).toEqual([])
    },
  )
})

describe('ids', () => {
  const ids = async (days: number): Promise<Record<string, unknown>[]> => {
    const { client, timers, double } = createRig()
    for (const waitMs of [0, 24 * days * HOUR_MS]) {
      // Asleep: to look every 5 s for 90 days would take seconds.
      timers.block(waitMs)
      client.track('open')
      await client.flush()
    }
    return double.requests.map((request) => request.body.events[0] as unknown as Record<string, unknown>)
  }

  it.each([
    [
      'within an hour keep all but the session',
      1 / 24,
      ['hashed_daily_id', 'hashed_monthly_id', 'hashed_retention_id'],
    ],
    ['on the next day keep month and retention', 1, ['hashed_monthly_id', 'hashed_retention_id']],
    ['after 90 days keep nothing', 90, []],
  ])('%s', async (_, days, kept) => {
    const [first, second] = await ids(days)
    const members = ['hashed_daily_id', 'hashed_monthly_id', 'hashed_retention_id', 'session_id']
    expect(members.filter((member) => first[member] === second[member])).toEqual(kept)
    for (const member of members) expect(String(first[member]).length).toBeGreaterThanOrEqual(16)
  })

  it('are those of the call, where it names some', async () => {
    const { client, double } = createRig()
    client.revenue('purchase', { amount: 9.99 }, { user_id: 'u', session_id: 's', context: { locale: 'en_GB' } })
    await client.flush()
    expect(double.requests[0].body.events[0]).toMatchObject({
      type: 'revenue',
      revenue: { amount: 9.99 },
      user_id: 'u',
      session_id: 's',
      context: { os: 'linux', locale: 'en_GB' },
    })
  })

  it.each(['{}', '7', '{"half'])('are made anew where somebody else wrote %s', async (text) => {
    const { client, double } = createRig({ store: mapStore(new Map([['identity', text]])) })
    client.track('open')
    await client.flush()
    expect(double.storedIds()).toHaveLength(1)
  })

  it('are shared with the next client of the store', async () => {
    const store = mapStore()
    const sessions: unknown[] = []
    for (let client = 0; client < 2; client++) {
      const rig = createRig({ store })
      rig.client.track('open')
      await rig.client.close()
      sessions.push((rig.double.requests[0].body.events[0] as unknown as { session_id: string }).session_id)
    }
    expect(sessions[0]).toBe(sessions[1])
  })
})
