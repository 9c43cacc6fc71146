import { describe, expect, it } from 'vitest'
import { createPage } from './support/page.ts'
import { createRig, DatedTimers, mapStore, waiting } from './support/rig.ts'

const SECOND_MS = 1000

describe('two tabs', () => {
  function createTabs() {
    const timers = new DatedTimers()
    const store = mapStore()
    const pages = [createPage(), createPage()]
    const first = createRig({ timers, store, page: pages[0] })
    const second = createRig({ timers, store, page: pages[1], double: first.double })
    return { timers, store, pages, first, second, double: first.double }
  }

  it('store all events once, sent by one of them', async () => {
    const { timers, first, second, double, store } = createTabs()
    for (let round = 0; round < 20; round++) {
      first.client.track(`first ${round}`)
      second.client.track(`second ${round}`)
      await timers.pass(SECOND_MS)
    }
    await timers.pass(5 * SECOND_MS)
    expect(new Set(double.storedIds())).toEqual(new Set([...first.tracked, ...second.tracked]))
    expect(double.requests).toHaveLength(double.stored.size)
    expect(waiting(store)).toEqual([])
  })

  it('the one that sends hears at once of what the other has stored', async () => {
    const { timers, pages, second, double, store } = createTabs()
    second.client.track('signup')
    await timers.pass(3 * SECOND_MS)
    expect(waiting(store)).toHaveLength(1)
    pages[0].fire('window', 'storage')
    await timers.pass(0)
    expect(double.storedIds()).toEqual(second.tracked)
  })

  it('the other sends what waits when the first closes', async () => {
    const { timers, first, second, double } = createTabs()
    second.client.track('signup')
    await timers.pass(4 * SECOND_MS)
    expect(double.storedIds()).toHaveLength(0)
    await first.client.close()
    await timers.pass(6 * SECOND_MS)
    expect(double.storedIds()).toHaveLength(1)
  })

  it('the one that does not send still hands over its own at its end', async () => {
    const { timers, second, double, pages } = createTabs()
    second.client.track('signup')
    pages[1].end()
    expect(pages[1].beacons).toHaveLength(1)
    expect(double.storedIds()).toHaveLength(0)
    await timers.pass(0)
  })

  it('opting out in one tab holds in the other', async () => {
    const { first, second, double } = createTabs()
    first.client.optOut()
    second.client.track('signup')
    await second.client.flush()
    expect(double.requests).toHaveLength(0)
    expect(second.dropped).toMatchObject([{ reason: 'consent' }])
  })
})

describe('two that send at once, because the lease failed them', () => {
  it('store each event once, though each seals the refused batch anew and sees nothing of the other', async () => {
    const timers = new DatedTimers()
    const map = new Map<string, string>()
    const away = createRig({ timers, store: mapStore(map) })
    away.double.always('unreachable')
    away.client.track('good')
    away.client.track('bad', { bad: 'name' })
    away.client.track('large', { text: 'x'.repeat(3000) })
    await away.client.close()
    const first = createRig({ timers, store: mapStore(new Map(map)), service: { maxBytes: 3500 } })
    const second = createRig({ timers, store: mapStore(new Map(map)), double: first.double })
    await timers.pass(SECOND_MS)
    const keys = first.double.requests.map((request) => request.key)
    expect(keys.length).toBe(new Set(keys).size * 2)
    expect(first.double.storedIds().toSorted()).toEqual([away.tracked[0], away.tracked[2]].toSorted())
    for (const { dropped } of [first, second]) expect(dropped).toMatchObject([{ reason: 'invalid', names: ['bad'] }])
  })
})

describe('a lease', () => {
  it('makes the one that holds it send what others store, though it has nothing of its own to send', async () => {
    const timers = new DatedTimers()
    const store = mapStore()
    const first = createRig({ timers, store })
    const second = createRig({ timers, store, double: first.double })
    second.client.track('signup')
    await timers.pass(10 * SECOND_MS)
    expect(first.double.storedIds()).toEqual(second.tracked)
  })

  it('keeps nobody from sending what is in its memory alone', async () => {
    const timers = new DatedTimers()
    const store = mapStore()
    store.set('lease', `other ${timers.nowMs() + 15 * SECOND_MS}`)
    const { client, double, tracked } = createRig({ timers, store: { ...store, set: () => false } })
    client.track('signup')
    expect(await client.flush()).toBe(true)
    expect(double.storedIds()).toEqual(tracked)
  })

  it('of a tab that was killed ends after 15 s', async () => {
    const timers = new DatedTimers()
    const store = mapStore(new Map([['lease', `gone ${timers.nowMs() + 14_000}`]]))
    const { client, double } = createRig({ timers, store })
    client.track('signup')
    await timers.pass(10 * SECOND_MS)
    expect(double.requests).toHaveLength(0)
    await timers.pass(10 * SECOND_MS)
    expect(double.storedIds()).toHaveLength(1)
  })

  it('that was written by a clock that has been set back is no lease', async () => {
    const timers = new DatedTimers()
    const store = mapStore(new Map([['lease', `gone ${timers.nowMs() + 1e9}`]]))
    const { client, double } = createRig({ timers, store })
    client.track('signup')
    await client.flush()
    expect(double.storedIds()).toHaveLength(1)
  })
})
