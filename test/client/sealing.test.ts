import { describe, expect, it } from 'vitest'
import { createRig, mapStore, trackMany, waiting } from './support/rig.ts'

const SECOND_MS = 1000

describe('sealing', () => {
  it('seals a batch 3 s after its first event', async () => {
    const { client, timers, double } = createRig()
    client.track('signup', { plan: 'yearly' })
    await timers.pass(2 * SECOND_MS)
    client.screen('start')
    await timers.pass(SECOND_MS - 1)
    expect(double.requests).toHaveLength(0)
    await timers.pass(1)
    expect(double.requests).toHaveLength(1)
    const [{ body, headers, key }] = double.requests as [(typeof double.requests)[0]]
    expect(body).toMatchObject({ app_key: 'ak_demo', sdk_version: expect.stringMatching(/^sluice-client\//) })
    expect(body.events).toMatchObject([
      {
        type: 'track',
        name: 'signup',
        context: { os: 'linux' },
        properties: { plan: 'yearly' },
        timestamp: '2026-11-20T12:00:00.000Z',
      },
      { type: 'screen', name: 'start', timestamp: '2026-11-20T12:00:02.000Z' },
    ])
    expect(headers['content-type']).toBe('application/json')
    expect(key).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(new Set(body.events.map((event) => event.event_id)).size).toBe(2)
  })

  it('seals a batch at once when it has 100 events', async () => {
    const { client, timers, double } = createRig()
    trackMany(client, 250)
    await timers.pass(0)
    expect(double.requests.map((request) => request.body.events.length)).toEqual([100, 100])
    await timers.pass(3 * SECOND_MS)
    expect(double.requests.map((request) => request.body.events.length)).toEqual([100, 100, 50])
    expect(new Set(double.storedIds()).size).toBe(250)
  })

  it('seals no batch of more than 60 KB that has more than one event', async () => {
    const { client, timers, double } = createRig()
    trackMany(client, 40, { text: 'é'.repeat(2500) })
    client.track('large', { text: 'x'.repeat(100_000) })
    await timers.pass(3 * SECOND_MS)
    for (const { body, text } of double.requests)
      if (body.events.length > 1) expect(Buffer.byteLength(text)).toBeLessThanOrEqual(60 * 1024)
    expect(double.requests.at(-1)!.body.events.map((event) => event.name)).toEqual(['large'])
    expect(double.storedIds()).toHaveLength(41)
  })

  it('sends the same bytes under the same key at every try, also after a restart', async () => {
    const store = mapStore()
    const { client, timers, double } = createRig({ store })
    double.always('lose answer')
    client.track('signup')
    await timers.pass(60 * SECOND_MS)
    const [first, ...others] = double.requests
    expect(others.length).toBeGreaterThan(2)
    const again = createRig({ store, timers, double })
    double.always('answer')
    await timers.pass(60 * SECOND_MS)
    for (const request of [...others, double.requests.at(-1)!]) {
      expect(request.text).toBe(first.text)
      expect(request.key).toBe(first.key)
    }
    expect(double.storedIds()).toHaveLength(1)
    expect(waiting(again.store)).toEqual([])
  })

  it('stores a batch before it is sent, and removes it after its 202', async () => {
    const { client, timers, double, store } = createRig()
    double.always('hang')
    client.track('signup')
    await timers.pass(3 * SECOND_MS)
    expect(double.requests).toHaveLength(1)
    expect(waiting(store)).toHaveLength(1)
    double.always('answer')
    await timers.pass(60 * SECOND_MS)
    expect(waiting(store)).toEqual([])
  })

  it('takes an event as it was when it was tracked', async () => {
    const { client, timers, double } = createRig()
    const properties = { step: 1 }
    client.track('signup', properties)
    properties.step = 2
    await timers.pass(3 * SECOND_MS)
    expect(double.requests[0].body.events[0].properties).toEqual({ step: 1 })
  })

  it('lets beforeSend change events or drop them, and drops one where it throws', async () => {
    const { client, timers, double, dropped } = createRig({
      beforeSend: (event) => {
        if (event.name === 'broken') throw new Error('broken')
        if (event.name === 'forgotten') return undefined as unknown as null
        return event.name === 'secret' ? null : { ...event, user_id: 'user-1' }
      },
    })
    for (const name of ['signup', 'secret', 'broken', 'forgotten']) client.track(name)
    await timers.pass(3 * SECOND_MS)
    expect(double.requests[0].body.events).toMatchObject([{ name: 'signup', user_id: 'user-1' }])
    expect(dropped).toMatchObject([
      { reason: 'before_send', names: ['secret'] },
      { reason: 'before_send', names: ['broken'] },
      { reason: 'before_send', names: ['forgotten'] },
    ])
  })

  it('drops what has no JSON and what is too large, and never throws', async () => {
    const { client, timers, double, dropped } = createRig({
      onDropped: () => {
        throw new Error('of the hook')
      },
    })
    client.track('bigint', { count: 1n })
    client.track('large', { text: 'x'.repeat(500_001) })
    client.track('good')
    await timers.pass(3 * SECOND_MS)
    expect(dropped.map(({ reason, names }) => `${reason}: ${names.join()}`)).toEqual([
      'invalid: bigint',
      'too_large: large',
    ])
    expect(double.requests[0].body.events.map((event) => event.name)).toEqual(['good'])
  })

  it('says in the next batch, once, what was dropped and why', async () => {
    const { client, timers, double } = createRig({ beforeSend: (event) => (event.name === 'secret' ? null : event) })
    for (const name of ['secret', 'secret', 'signup']) client.track(name)
    await timers.pass(3 * SECOND_MS)
    client.track('login')
    await timers.pass(3 * SECOND_MS)
    expect(double.requests.map((request) => request.body.client_report)).toEqual([
      { dropped: { before_send: 2 } },
      undefined,
    ])
  })

  it('says it again where the batch that said it was dropped itself', async () => {
    const { client, timers, double } = createRig({ beforeSend: (event) => (event.name === 'secret' ? null : event) })
    double.behave({ status: 401 })
    for (const name of ['secret', 'signup']) client.track(name)
    await timers.pass(3 * SECOND_MS)
    client.track('login')
    await timers.pass(3 * SECOND_MS)
    expect(double.requests.at(-1)!.body.client_report).toEqual({ dropped: { before_send: 1, unauthorized: 1 } })
  })

  it('flush sends at once and says whether all was taken', async () => {
    const { client, double } = createRig()
    client.track('signup')
    expect(await client.flush()).toBe(true)
    double.always('unreachable')
    client.track('login')
    expect(await client.flush()).toBe(false)
    double.always('answer')
    expect(await client.flush()).toBe(true)
    expect(double.storedIds()).toHaveLength(2)
  })

  it('close sends what is open, and drops what comes later', async () => {
    const { client, timers, double, dropped } = createRig()
    client.track('signup')
    await client.close()
    client.track('late')
    await timers.pass(3 * SECOND_MS)
    expect(double.storedIds()).toHaveLength(1)
    expect(dropped).toMatchObject([{ reason: 'closed', names: ['late'] }])
  })

  it('close ends in time where the service does not answer; what is stored waits, what is in memory is dropped', async () => {
    for (const withoutStore of [false, true]) {
      const { client, timers, double, dropped, store } = createRig({ withoutStore })
      double.always('hang')
      client.track('signup')
      const closed = client.close(5 * SECOND_MS)
      await timers.pass(5 * SECOND_MS)
      await closed
      expect(waiting(store)).toHaveLength(withoutStore ? 0 : 1)
      expect(dropped.map((drop) => drop.reason)).toEqual(withoutStore ? ['closed'] : [])
    }
  })
})
