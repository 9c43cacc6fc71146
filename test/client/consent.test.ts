import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { createClientOn } from '../../clients/typescript/src/client.ts'
import { createDouble } from './support/double.ts'
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

  it.each(['flush', 'track', 'storage event'])(
    'taken back in another tab: what this one has of the user goes at once, seen by its %s',
    async (seenBy) => {
      const store = mapStore()
      const timers = new DatedTimers()
      const page = createPage()
      const here = createRig({ store, timers, page, persist: true })
      const { client, double, dropped } = here
      client.identify('user-17')
      client.track('before')
      await client.flush()
      client.track('open')
      const other = createRig({ store, timers, double })
      other.client.optOut()
      if (seenBy === 'flush') await client.flush()
      if (seenBy === 'track') client.track('denied')
      if (seenBy === 'storage event') page.fire('window', 'storage')
      expect(dropped[0]).toMatchObject({ reason: 'consent', names: ['open'] })
      expect(store.keys()).toEqual(['consent'])
      other.client.optIn()
      client.track('after')
      await client.flush()
      await timers.pass(10_000)
      const events = [...double.stored.values()].flatMap((body) => body.events)
      const [before, after] = ['before', 'after'].map((name) => events.find((event) => event.name === name)!)
      expect(after).not.toHaveProperty('user_id')
      expect(after.hashed_retention_id).not.toBe(before.hashed_retention_id)
      expect(store.get('identity')).not.toContain(before.hashed_retention_id)
      expect(events.map(({ name }) => name)).not.toContain('open')
    },
  )

  it('taken back and given again, unseen here, leaves no old id', async () => {
    const store = mapStore()
    const { client, timers, double } = createRig({ store })
    client.track('before')
    await client.flush()
    const other = createRig({ store, timers, double })
    other.client.optOut()
    other.client.optIn()
    client.track('after')
    await client.flush()
    const [before, after] = [...double.stored.values()].flatMap((body) => body.events)
    expect(after.hashed_retention_id).not.toBe(before.hashed_retention_id)
  })

  it.each(['optOut', 'close'] as const)(
    'no request begins after %s, though compression was under way',
    async (call) => {
      const timers = new DatedTimers()
      const double = createDouble({ nowMs: () => timers.nowMs() })
      let packed: (bytes: null) => void = () => undefined
      const { platform } = createRig({ timers, double })
      const compress = (): Promise<null> => new Promise((resolve) => void (packed = resolve))
      const client = createClientOn(
        { ...platform, compress },
        { url: 'https://events.example.com', appKey: 'ak', store: mapStore() },
      )
      client.track('signup')
      const flushed = client.flush()
      await timers.pass(0)
      if (call === 'optOut') client.optOut()
      else {
        const closed = client.close(10)
        await timers.pass(10)
        await closed
      }
      packed(null)
      await timers.pass(1000)
      await flushed
      expect(double.requests).toEqual([])
    },
  )

  it('nothing goes uncompressed after an opt-out, where what was compressed was refused', async () => {
    const timers = new DatedTimers()
    const double = createDouble({ nowMs: () => timers.nowMs() })
    const { platform } = createRig({ timers, double })
    const compress = async (body: string): Promise<ArrayBuffer> => new Uint8Array(gzipSync(body)).buffer
    const fetch: typeof globalThis.fetch = async (...given) => {
      const answer = await double.fetch(...given)
      client.optOut()
      return answer
    }
    const options = { url: 'https://events.example.com', appKey: 'ak', store: mapStore() }
    const client = createClientOn({ ...platform, compress, fetch }, options)
    double.behave({ status: 415 })
    client.track('signup')
    await client.flush()
    expect(double.requests).toHaveLength(1)
  })

  it('taken back, with a count of drops that nobody can read in the store, still drops and forgets all', async () => {
    const store = mapStore()
    const { client, double, dropped } = createRig({ store })
    double.always('unreachable')
    client.track('sealed')
    await client.flush()
    store.set('dropped', '5')
    client.track('open')
    client.optOut()
    expect(store.keys()).toEqual(['consent'])
    expect(dropped.map(({ names }) => names.join())).toEqual(['open', 'sealed'])
  })

  it('taken back just after another script has cleared the store reports what waited', async () => {
    const map = new Map<string, string>()
    const { client, double, dropped } = createRig({ store: mapStore(map) })
    double.always('unreachable')
    client.track('sealed')
    await client.flush()
    map.clear()
    client.optOut()
    expect([...map]).toEqual([['consent', 'denied']])
    expect(dropped).toMatchObject([{ reason: 'consent', names: ['sealed'] }])
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
