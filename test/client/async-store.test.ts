// A store whose answers come later, as those of telephones do.

import { describe, expect, it } from 'vitest'
import type { AsyncStore } from '../../clients/typescript/src/types.ts'
import { createRig, DatedTimers } from './support/rig.ts'

const SECOND_MS = 1000

interface Slow {
  readonly store: AsyncStore
  readonly map: Map<string, string>
  /** Calls in their order. */
  readonly calls: string[]
}

/** Each call takes `delayMs`, and comes to what `answer` makes of it. */
function slowStore(timers: DatedTimers, map = new Map<string, string>(), delayMs = 50): Slow {
  const calls: string[] = []
  const later = async <T>(call: string, work: () => T): Promise<T> => {
    calls.push(call)
    await new Promise<void>((resolve) => void timers.setTimeout(resolve, delayMs))
    return work()
  }
  const store: AsyncStore = {
    keys: () => later('keys', () => [...map.keys()]),
    get: (name) => later(`get ${name}`, () => map.get(name) ?? null),
    set: (name, value) => later(`set ${name}`, () => void map.set(name, value)),
    remove: (name) => later(`remove ${name}`, () => map.delete(name)),
  }
  return { store, map, calls }
}

const batches = (map: Map<string, string>): string[] => [...map.keys()].filter((name) => /^b\d/.test(name))

describe('an asynchronous store', () => {
  it('holds a batch before it is sent, and no more after its 202', async () => {
    const timers = new DatedTimers()
    const { store, map } = slowStore(timers)
    const { client, double } = createRig({ timers, store })
    client.track('signup')
    double.behave('hang')
    await timers.pass(4 * SECOND_MS)
    expect([double.requests.length, batches(map).length]).toEqual([1, 1])
    await timers.pass(60 * SECOND_MS)
    expect(double.storedIds()).toHaveLength(1)
    expect(batches(map)).toEqual([])
  })

  it('sends nothing before it is written', async () => {
    const timers = new DatedTimers()
    const { store, map } = slowStore(timers, new Map(), 2000)
    const { client, double } = createRig({ timers, store })
    client.track('signup')
    await timers.pass(2000 + 3 * SECOND_MS)
    expect([double.requests.length, batches(map).length]).toEqual([0, 0])
    await timers.pass(10 * SECOND_MS)
    expect(double.storedIds()).toHaveLength(1)
  })

  it('gives the next client what waited, the ids, the user and the choice, for what is tracked before it is read too', async () => {
    const timers = new DatedTimers()
    const map = new Map<string, string>()
    const first = createRig({ timers, store: slowStore(timers, map).store, persist: true })
    first.double.always('unreachable')
    first.client.identify('user')
    const properties = { step: 1 }
    first.client.track('waits', properties)
    properties.step = 2
    await timers.pass(10 * SECOND_MS)
    const closed = first.client.close()
    await timers.pass(10 * SECOND_MS)
    await closed
    expect(first.dropped).toEqual([])
    const next = createRig({ timers, store: slowStore(timers, map).store, persist: true })
    next.client.track('early')
    await timers.pass(10 * SECOND_MS)
    const events = [...next.double.stored.values()].flatMap((body) => body.events)
    expect(events).toMatchObject([
      { name: 'waits', user_id: 'user', properties: { step: 1 } },
      { name: 'early', user_id: 'user', hashed_retention_id: events[0].hashed_retention_id },
    ])
    next.client.optOut()
    await timers.pass(SECOND_MS)
    expect([...map.keys()]).toEqual(['consent'])
    const last = createRig({ timers, store: slowStore(timers, map).store })
    last.client.track('refused')
    await timers.pass(10 * SECOND_MS)
    expect(last.dropped).toMatchObject([{ reason: 'consent', names: ['refused'] }])
  })

  it.each<[string, (store: AsyncStore) => AsyncStore]>([
    [
      'rejects what it is asked, but for the choice',
      (store) => ({ ...store, keys: reject, set: reject, remove: reject }),
    ],
    ['rejects what is set', (store) => ({ ...store, set: reject })],
    ['has no room', (store) => ({ ...store, set: async () => false })],
    ['throws at once', (store) => ({ ...store, set: fail, remove: fail })],
    ['hangs when it is written to', (store) => ({ ...store, set: never })],
    [
      'gives nonsense',
      () =>
        ({
          keys: async () => 7,
          get: async () => ({}),
          set: async () => 'x',
          remove: async () => 1,
        }) as unknown as AsyncStore,
    ],
  ])('that %s is made up for by memory, and what that cannot keep is reported', async (what, broken) => {
    const timers = new DatedTimers()
    const { client, double, dropped } = createRig({ timers, store: broken(slowStore(timers).store) })
    client.track('sent')
    await timers.pass(60 * SECOND_MS)
    expect(double.storedIds()).toHaveLength(1)
    double.always('unreachable')
    client.track('late')
    await timers.pass(30 * SECOND_MS)
    const closed = client.close()
    await timers.pass(30 * SECOND_MS)
    await closed
    expect(double.storedIds()).toHaveLength(1)
    // Where nonsense says that it is kept, it is believed.
    if (what !== 'gives nonsense') expect(dropped).toMatchObject([{ reason: 'closed', names: ['late'] }])
  })

  it.each<[string, (store: AsyncStore) => AsyncStore]>([
    ['rejects all', () => ({ keys: reject, get: reject, set: reject, remove: reject })],
    ['rejects what is read', (store) => ({ ...store, get: reject })],
    ['throws when it is read', (store) => ({ ...store, get: fail })],
    ['hangs', () => ({ keys: never, get: never, set: never, remove: never })],
    ['hangs when it is listed', (store) => ({ ...store, keys: never })],
  ])('that %s may hold an opt-out: nothing is sent until the user is asked', async (_, broken) => {
    const timers = new DatedTimers()
    const map = new Map([['consent', 'denied']])
    const { client, double, dropped } = createRig({ timers, store: broken(slowStore(timers, map).store) })
    client.track('waits')
    await timers.pass(60 * SECOND_MS)
    expect([double.requests.length, dropped.length]).toEqual([0, 0])
    client.optIn()
    await timers.pass(60 * SECOND_MS)
    expect(double.storedIds()).toHaveLength(1)
  })

  it('that is full keeps an opt-out, once what it held is removed', async () => {
    const timers = new DatedTimers()
    const map = new Map<string, string>()
    const { store } = slowStore(timers, map)
    let isFull = false
    const set: AsyncStore['set'] = async (name, text) =>
      isFull && map.size > 0 ? reject() : await store.set(name, text)
    const { client, double } = createRig({ timers, store: { ...store, set } })
    double.always('unreachable')
    client.track('waits')
    await timers.pass(5 * SECOND_MS)
    isFull = true
    client.optOut()
    await timers.pass(5 * SECOND_MS)
    expect([...map]).toEqual([['consent', 'denied']])
  })

  it.each([
    ['a number', () => 7],
    ['a text', () => 'abc'],
    ['an object', () => ({})],
  ])('whose names are %s is made up for by memory', async (_, keys) => {
    const store = { ...slowStore(new DatedTimers()).store, keys } as unknown as AsyncStore
    const { client, double } = createRig({ store })
    client.track('signup')
    expect(await client.flush()).toBe(true)
    expect(double.storedIds()).toHaveLength(1)
  })

  it('that did not answer once is asked no more', async () => {
    const timers = new DatedTimers()
    let calls = 0
    const set = (): Promise<never> => (calls++, never())
    const { client, double } = createRig({ timers, store: { ...slowStore(timers).store, set } })
    for (let round = 0; round < 5; round++) {
      client.track('signup')
      await timers.pass(30 * SECOND_MS)
    }
    expect(double.storedIds()).toHaveLength(5)
    expect(calls).toBe(1)
  })

  it('that is not read yet keeps a thousand events waiting, and reports those beyond', async () => {
    const timers = new DatedTimers()
    const { client, dropped, double } = createRig({ timers, store: slowStore(timers).store })
    for (let at = 0; at < 1002; at++) client.track(`event ${at}`)
    expect(dropped).toMatchObject([
      { reason: 'overflow', names: ['event 1000'] },
      { reason: 'overflow', names: ['event 1001'] },
    ])
    await timers.pass(60 * SECOND_MS)
    expect(double.storedIds()).toHaveLength(1000)
  })
})

const never = (): Promise<never> => new Promise(() => {})
const reject = async (): Promise<never> => fail()
function fail(): never {
  throw new Error('of the store')
}
