// What a page asks for beside delivery: users, properties of each event, page views, sizes and delays, debug.

import { describe, expect, it, vi } from 'vitest'
import { createPage, type FakePage } from './support/page.ts'
import { createRig, DatedTimers, mapStore, type Rig, trackMany } from './support/rig.ts'

const SECOND_MS = 1000

/** Events as they are stored, in order. */
function storedEvents({ double }: Rig): Record<string, unknown>[] {
  return [...double.stored.values()].flatMap(({ events }) => events) as unknown as Record<string, unknown>[]
}

describe('users', () => {
  it('identify, register and unregister hold for each later event, where the call names nothing else', async () => {
    const rig = createRig()
    const { client } = rig
    const registered = { plan: 'yearly', source: 'search' }
    client.track('before')
    client.register(registered)
    registered.plan = 'monthly'
    client.identify('user')
    client.screen('start')
    client.track('own', { plan: 'free' }, { user_id: 'other' })
    client.unregister('plan', 'source')
    client.revenue('purchase', { amount: 1 })
    await client.flush()
    expect(storedEvents(rig).map(({ name, user_id, properties }) => ({ name, user_id, properties }))).toEqual([
      { name: 'before', user_id: undefined, properties: undefined },
      { name: 'start', user_id: 'user', properties: { plan: 'yearly', source: 'search' } },
      { name: 'own', user_id: 'other', properties: { plan: 'free', source: 'search' } },
      { name: 'purchase', user_id: 'user', properties: undefined },
    ])
  })

  it('reset forgets the user, the registered properties and all ids', async () => {
    const store = mapStore()
    const rig = createRig({ store, persist: true })
    const { client } = rig
    client.identify('user')
    client.register({ plan: 'yearly' })
    client.track('before')
    client.reset()
    expect([store.get('traits'), store.get('identity')]).toEqual([null, null])
    client.track('after')
    await client.flush()
    const [before, after] = storedEvents(rig)
    expect(after['user_id']).toBeUndefined()
    expect(after['properties']).toBeUndefined()
    for (const id of ['hashed_daily_id', 'hashed_monthly_id', 'hashed_retention_id', 'session_id'])
      expect(after[id]).not.toBe(before[id])
  })

  it.each([
    [true, 'user', { plan: 'yearly' }],
    [false, undefined, undefined],
  ])('persist %s: a later page sends user %s', async (persist, user_id, properties) => {
    const store = mapStore()
    const first = createRig({ store, persist, consent: 'pending' })
    first.client.identify('user')
    first.client.register({ plan: 'yearly' })
    expect(store.keys()).toEqual([])
    first.client.optIn()
    await first.client.close()
    const next = createRig({ store, persist })
    next.client.track('visit')
    await next.client.flush()
    const [event] = storedEvents(next)
    expect(event['user_id']).toBe(user_id)
    expect(event['properties']).toEqual(properties)
  })

  it.each<[unknown, string | undefined]>([
    [17, '17'],
    [0, '0'],
    [10n, '10'],
    ['x'.repeat(300), 'x'.repeat(256)],
    ['', undefined],
    [null, undefined],
    [undefined, undefined],
    [NaN, undefined],
    [{}, undefined],
  ])('identify(%s) gives no event a user that the service refuses', async (given, user_id) => {
    const rig = createRig()
    rig.client.identify('user')
    rig.client.identify(given as string)
    rig.client.track('visit')
    await rig.client.flush()
    expect(storedEvents(rig).map((event) => event['user_id'])).toEqual([user_id])
  })

  it('what the service refuses is not registered, nor taken from an earlier page', async () => {
    const store = mapStore(new Map([['traits', JSON.stringify({ user_id: 17, properties: { old: 'x'.repeat(501) } })]]))
    const rig = createRig({ store, persist: true })
    const list = Array.from({ length: 251 }, () => 0)
    rig.client.register({ fits: 'é'.repeat(500), emoji: '😀'.repeat(500), long: 'x'.repeat(501), list })
    rig.client.track('visit')
    rig.client.register(Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`p${at}`, at])))
    rig.client.track('again')
    await rig.client.flush()
    const [visit, again] = storedEvents(rig)
    expect(visit).toMatchObject({ user_id: '17' })
    expect(Object.keys(visit['properties'] as object)).toEqual(['fits', 'emoji'])
    expect(Object.keys(again['properties'] as object)).toHaveLength(50)
  })

  it('a context that throws when it is read costs itself alone', async () => {
    const context = Object.defineProperty({}, 'app_version', { enumerable: true, get: () => JSON.parse('') as string })
    const rig = createRig({ context })
    rig.client.track('visit')
    await rig.client.flush()
    expect(storedEvents(rig)).toMatchObject([{ name: 'visit', context: { os: 'linux' } }])
  })

  it('what has no JSON is not registered, and spoils no event', async () => {
    const rig = createRig()
    rig.client.register({ count: 1n })
    rig.client.track('visit')
    await rig.client.flush()
    expect(storedEvents(rig)).toHaveLength(1)
    expect(rig.dropped).toEqual([])
  })

  it('what throws when it is read costs its own event alone', async () => {
    const rig = createRig()
    const hostile = Object.defineProperty({}, 'name', {
      enumerable: true,
      get: () => {
        throw new Error('of the page')
      },
    })
    rig.client.track('hostile', hostile)
    rig.client.screen('hostile', hostile)
    rig.client.track('visit')
    await rig.client.flush()
    expect(storedEvents(rig).map(({ name }) => name)).toEqual(['visit'])
    expect(rig.dropped.map(({ reason }) => reason)).toEqual(['invalid', 'invalid'])
  })
})

describe('batches', () => {
  it('have as many events as batchSize says, and wait as long as flushIntervalMs', async () => {
    const { client, timers, double } = createRig({ batchSize: 10, flushIntervalMs: 500 })
    trackMany(client, 25)
    await timers.pass(499)
    expect(double.requests.map(({ body }) => body.events.length)).toEqual([10, 10])
    await timers.pass(1)
    expect(double.requests.map(({ body }) => body.events.length)).toEqual([10, 10, 5])
  })

  it.each([
    [NaN, 3000],
    ['5' as unknown as number, 3000],
    [-1, 0],
    [700.9, 700],
    [1e9, 60_000],
  ])('wait, with a flushIntervalMs of %s, for %i ms', async (flushIntervalMs, waitedMs) => {
    const { client, timers, double } = createRig({ flushIntervalMs })
    client.track('signup')
    const sinceMs = timers.nowMs()
    await timers.pass(60 * SECOND_MS)
    expect(double.requests.map(({ atMs }) => atMs - sinceMs)).toEqual([waitedMs])
  })

  it.each([
    [NaN, 100],
    ['5' as unknown as number, 100],
    [-1, 1],
    [7.9, 7],
    [1e9, 100],
  ])('have, with a batchSize of %s, at most %i events', async (batchSize, most) => {
    const { client, timers, double } = createRig({ batchSize })
    trackMany(client, 200)
    await timers.pass(60 * SECOND_MS)
    expect(Math.max(...double.requests.map(({ body }) => body.events.length))).toBe(most)
    expect(double.storedIds()).toHaveLength(200)
  })

  it('wait in the queue as by default where maxQueueBytes is no number', async () => {
    const { client, double, dropped } = createRig({ batchSize: 1, maxQueueBytes: '2 MB' as unknown as number })
    double.always('unreachable')
    trackMany(client, 5)
    await client.flush()
    expect(dropped).toEqual([])
  })
})

describe('page views', () => {
  /** A page with an address and a history. */
  function createShop(): FakePage & { go(path: string, hash?: string): void; history: History } {
    const page = createPage()
    const location = { pathname: '/', hash: '' }
    const set = (_state: unknown, _unused: string, path: string): void => void (location.pathname = path.split('?')[0])
    const history = { pushState: set, replaceState: set } as unknown as History
    Object.assign(page.window, { location, history })
    Object.assign(page.document, { title: 'Shop', referrer: 'https://search.example.com/find?q=secret' })
    return Object.assign(page, {
      history,
      go(path: string, hash = '') {
        Object.assign(location, { pathname: path, hash })
        page.fire('window', 'popstate')
      },
    })
  }

  it('are told at the start and for each new path, once, whoever changes it, without what follows the ?', async () => {
    const page = createShop()
    const rig = createRig({ page, pageViews: true })
    const { timers, client } = rig
    page.history.pushState(null, '', '/shoes?token=secret')
    await timers.pass(1)
    page.history.replaceState(null, '', '/shoes?size=40')
    await timers.pass(1)
    page.history.pushState(null, '', '/redirect')
    page.history.pushState(null, '', '/cart')
    Object.assign(page.document, { title: 'Cart' })
    await timers.pass(1)
    page.go('/cart', '#top')
    await timers.pass(1)
    page.go('/cart', '#/pay?card=secret')
    await timers.pass(1)
    page.fire('window', 'pageshow', { persisted: true })
    await client.flush()
    expect(storedEvents(rig).map(({ type, name, properties }) => [type, name, properties])).toEqual([
      ['screen', '/', { title: 'Shop', referrer: 'https://search.example.com/find' }],
      ['screen', '/shoes', { title: 'Shop', referrer: '/' }],
      ['screen', '/cart', { title: 'Cart', referrer: '/shoes' }],
      ['screen', '/cart#/pay', { title: 'Cart', referrer: '/cart' }],
      ['screen', '/cart#/pay', { title: 'Cart', referrer: '/cart#/pay' }],
    ])
    expect(JSON.stringify(storedEvents(rig))).not.toContain('secret')
  })

  it.each([
    '#/login#access_token=secret',
    '#/login&access_token=secret',
    '#!/login?access_token=secret',
    '#/login;t=secret',
  ])('tell no secret that follows the route in %s', async (hash) => {
    const page = createShop()
    page.go('/app', hash)
    const rig = createRig({ page, pageViews: true })
    await rig.client.flush()
    expect(storedEvents(rig).map(({ name }) => name)).toEqual(['/app#/login'])
  })

  it('end with the client, and leave the history as it was', async () => {
    const page = createShop()
    const calls = (): unknown[] => Object.values(page.history)
    const before = calls()
    const rig = createRig({ page, pageViews: true })
    expect(calls()).not.toEqual(before)
    await rig.client.close()
    expect(calls()).toEqual(before)
    page.go('/late')
    await rig.timers.pass(SECOND_MS)
    expect(rig.dropped).toEqual([])
  })

  it('are told by nobody who has not asked for them', async () => {
    const page = createShop()
    const rig = createRig({ page })
    page.history.pushState(null, '', '/shoes')
    await rig.timers.pass(60 * SECOND_MS)
    expect(rig.double.requests).toEqual([])
  })
})

describe('debug', () => {
  it('says what is taken, sent, answered, kept and dropped, and changes nothing', async () => {
    const lines: string[] = []
    vi.stubGlobal('console', { ...console, debug: (text: string) => lines.push(text) })
    const rig = createRig({ debug: true, timers: new DatedTimers() })
    const { client, timers, double } = rig
    double.behave('answer', 'unreachable', 'unreachable', { status: 401 })
    client.track('first')
    await client.flush()
    client.track('second')
    await timers.pass(60 * SECOND_MS)
    expect(lines).toEqual([
      'sluice: took track first',
      'sluice: sends a batch',
      'sluice: the answer is 202',
      'sluice: took track second',
      'sluice: sends a batch',
      'sluice: no answer came',
      'sluice: sends a batch',
      'sluice: no answer came',
      'sluice: keeps 1 events: no_answer',
      'sluice: sends a batch',
      'sluice: the answer is 401',
      'sluice: dropped 1 events: unauthorized',
    ])
    expect(rig.dropped).toMatchObject([{ reason: 'unauthorized', names: ['second'] }])
  })
})
