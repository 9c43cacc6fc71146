import { describe, expect, it } from 'vitest'
import { createRig, mapStore, trackMany } from './support/rig.ts'

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
    expect(store.keys().toSorted()).toEqual(['consent', 'dropped'])
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
})
