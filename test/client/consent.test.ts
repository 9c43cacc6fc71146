import { describe, expect, it } from 'vitest'
import { createPage } from './support/page.ts'
import { createRig, DatedTimers, mapStore, trackMany } from './support/rig.ts'

const HOUR_MS = 3_600_000

describe('consent', () => {
  it('pending: stores and sends nothing; opting in sends what waited', async () => {
    const store = mapStore()
    const { client, timers, double } = createRig({ store, consent: 'pending' })
    trackMany(client, 150)
    await timers.pass(HOUR_MS)
    expect(await client.flush()).toBe(false)
    expect(double.requests).toHaveLength(0)
    expect(store.keys()).toEqual([])
    client.optIn()
    await timers.pass(0)
    expect(double.storedIds()).toHaveLength(150)
    expect(new Set(double.requests[0].body.events.map((event) => event.timestamp)).size).toBe(1)
  })

  it('pending: keeps the last thousand events', async () => {
    const { client, timers, dropped, double } = createRig({ consent: 'pending' })
    trackMany(client, 1003)
    expect(dropped.map(({ reason, names }) => `${reason}: ${names.join()}`)).toEqual([
      'overflow: event 0',
      'overflow: event 1',
      'overflow: event 2',
    ])
    client.optIn()
    await timers.pass(0)
    expect(double.storedIds()).toHaveLength(1000)
  })

  it('opting out drops what waits, forgets the ids, and holds for the next client too', async () => {
    const store = mapStore()
    const { client, timers, double, dropped } = createRig({ store })
    double.always('unreachable')
    client.track('sealed')
    await timers.pass(5000)
    client.track('open')
    client.optOut()
    client.track('late')
    expect(dropped.map(({ reason, names }) => `${reason}: ${names.join()}`)).toEqual([
      'consent: open',
      'consent: sealed',
      'consent: late',
    ])
    expect(store.keys()).toEqual(['consent'])
    await client.close()
    const next = createRig({ store, double, timers })
    const before = double.requests.length
    next.client.track('later')
    await next.client.flush()
    expect(double.requests).toHaveLength(before)
    expect(next.dropped).toMatchObject([{ reason: 'consent', names: ['later'] }])
    expect(store.get('identity')).toBeNull()
  })

  it('opting in again takes events again, with fresh ids', async () => {
    const { client, double } = createRig()
    client.track('before')
    await client.flush()
    client.optOut()
    client.optIn()
    client.track('after')
    await client.flush()
    const [before, after] = double.requests.map((request) => request.body.events[0])
    expect(after.name).toBe('after')
    expect(after.hashed_retention_id).not.toBe(before.hashed_retention_id)
  })

  it('pending: what is dropped is counted in memory, and told once the user agrees', async () => {
    const store = mapStore()
    const { client, timers, double } = createRig({
      store,
      consent: 'pending',
      page: createPage(),
      beforeSend: (event) => (event.name === 'secret' ? null : event),
    })
    client.identify('user')
    client.register({ plan: 'yearly' })
    for (const name of ['secret', 'large', 'signup'])
      client.track(name, { text: 'x'.repeat(name === 'large' ? 500_001 : 1) })
    trackMany(client, 1001)
    await timers.pass(HOUR_MS)
    expect(store.keys()).toEqual([])
    client.optIn()
    await timers.pass(0)
    expect(double.requests[0].body.client_report).toEqual({ dropped: { before_send: 1, too_large: 1, overflow: 2 } })
  })

  it('taken back: nothing but that is in the store, whatever is called, in this tab and in another', async () => {
    const store = mapStore()
    const timers = new DatedTimers()
    const pages = [createPage(), createPage()]
    const [first, second] = pages.map((page) => createRig({ store, timers, page, persist: true, consent: 'pending' }))
    first.double.always('unreachable')
    first.client.optIn()
    first.client.identify('user')
    first.client.track('waits')
    await timers.pass(5000)
    expect(store.keys()).toContain('traits')
    // It waits for the lease of the first.
    void second.client.flush()
    first.client.optOut()
    for (const { client } of [first, second]) {
      client.track('late')
      client.identify('user')
      client.register({ plan: 'yearly' })
      void client.flush()
    }
    await timers.pass(HOUR_MS)
    for (const page of pages) page.end()
    expect(store.keys()).toEqual(['consent'])
    await Promise.all([first.client.close(), second.client.close()])
    expect(store.keys()).toEqual(['consent'])
  })

  it('taken back holds for this page though another script clears the store', async () => {
    const map = new Map<string, string>()
    const { client, double, dropped } = createRig({ store: mapStore(map) })
    client.optOut()
    map.clear()
    client.track('late')
    expect(await client.flush()).toBe(true)
    expect(double.requests).toEqual([])
    expect(dropped).toMatchObject([{ reason: 'consent' }])
    expect([...map]).toEqual([['consent', 'denied']])
  })

  it('given late: the ids of the first page are those of the next one', async () => {
    const store = mapStore()
    const first = createRig({ store, consent: 'pending' })
    first.client.track('before')
    first.client.optIn()
    first.client.track('after')
    await first.client.close()
    const next = createRig({ store })
    next.client.track('next')
    await next.client.flush()
    const [before, after] = [first, next].map(({ double }) => double.requests[0].body.events[0])
    expect(after.hashed_retention_id).toBe(before.hashed_retention_id)
  })
})
