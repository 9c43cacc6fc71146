// The browser is a double here, and so is the service, so that the clock can be moved; browser.long.test.ts has real ones.

import { describe, expect, it } from 'vitest'
import { createPage, type FakePageOptions } from './support/page.ts'
import { createRig, mapStore, type RigOptions, trackMany, waiting } from './support/rig.ts'

const SECOND_MS = 1000
const QUOTA_BYTES = 60 * 1024
const ENFORCED = { disposition: 'enforce', effectiveDirective: 'connect-src' }
const PLAIN_URL = /^https:\/\/events\.example\.com\/api\/v1\/events\?key=[0-9a-f-]{36}$/

function createPageRig(pageOptions: FakePageOptions = {}, options: RigOptions = {}) {
  const page = createPage({ ...pageOptions, double: () => rig.double })
  const rig = createRig({ ...options, page })
  return { ...rig, page }
}

describe('a page that is hidden', () => {
  it('sends what is open with a fetch that outlives it and that no other origin is asked about', async () => {
    const { client, timers, double, page, store } = createPageRig()
    client.track('signup')
    page.hide()
    expect(double.requests).toHaveLength(1)
    expect(double.requests[0]).toMatchObject({
      keepalive: true,
      headers: { 'content-type': 'text/plain;charset=UTF-8' },
    })
    expect(double.requests[0].url).toMatch(PLAIN_URL)
    await timers.pass(0)
    expect(waiting(store)).toEqual([])
    page.end()
    expect(page.beacons).toEqual([])
  })

  it('sends to its own origin as ever, but for keepalive', async () => {
    const { client, double, page } = createPageRig({ origin: 'https://events.example.com' })
    client.track('signup')
    page.hide()
    expect(double.requests[0]).toMatchObject({
      url: 'https://events.example.com/api/v1/events',
      keepalive: true,
      headers: { 'content-type': 'application/json', 'idempotency-key': double.requests[0].key },
    })
  })

  it('has at most 60 KB under way; the rest goes in plain fetches, one after another', async () => {
    const { client, timers, double, page } = createPageRig()
    trackMany(client, 3, { text: 'x'.repeat(25_000) })
    trackMany(client, 3, { text: 'x'.repeat(25_000) })
    double.always('hang')
    page.hide()
    const bytes = double.requests.map((request) => request.text.length)
    expect(bytes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(QUOTA_BYTES)
    double.always('answer')
    await timers.pass(60 * SECOND_MS)
    expect(new Set(double.storedIds()).size).toBe(6)
    expect(double.storedIds()).toHaveLength(6)
    expect(double.requests.filter((request) => !request.keepalive).length).toBeGreaterThan(0)
  })

  it('uses beacons where fetch cannot outlive it', () => {
    const { client, double, page } = createPageRig({ keepalive: false })
    client.track('signup')
    page.hide()
    expect(page.beacons).toHaveLength(1)
    expect(double.storedIds()).toHaveLength(1)
  })

  it('offline or told to wait only stores', async () => {
    for (const onLine of [true, false]) {
      const { client, double, page, store } = createPageRig({ onLine })
      if (onLine) store.set('wait', String(Date.parse('2026-11-20T13:00:00Z')))
      client.track('signup')
      page.hide()
      page.end()
      expect([...double.requests, ...page.beacons]).toEqual([])
      expect(waiting(store)).toHaveLength(1)
    }
  })
})

describe('a page that ends', () => {
  it('sends a beacon under the key of the batch, and the next page within 240 s repeats it harmlessly', async () => {
    const store = mapStore()
    const { client, page, double, timers } = createPageRig({}, { store })
    client.track('signup')
    page.end()
    expect(page.beacons).toHaveLength(1)
    expect(page.beacons[0].url).toMatch(PLAIN_URL)
    await timers.pass(200 * SECOND_MS)
    const next = createRig({ store, double, timers })
    await timers.pass(0)
    expect(double.requests).toHaveLength(2)
    expect(double.requests[0].key).toBe(double.requests[1].key)
    expect(double.storedIds()).toHaveLength(1)
    expect(waiting(store)).toEqual([])
    expect(next.dropped).toEqual([])
  })

  it('reports a batch whose beacon was not confirmed while its key was remembered', async () => {
    const store = mapStore()
    const { client, page, double, timers } = createPageRig({}, { store })
    client.track('signup')
    page.end()
    await timers.pass(3600 * SECOND_MS)
    const next = createRig({ store, double, timers })
    await timers.pass(0)
    expect(double.requests).toHaveLength(1)
    expect(next.dropped).toMatchObject([{ reason: 'unconfirmed', names: ['signup'] }])
  })

  it('repeats by beacon what an ordinary fetch had under way', async () => {
    const { client, page, double, timers } = createPageRig()
    double.always('hang')
    client.track('signup')
    await timers.pass(3 * SECOND_MS)
    page.end()
    expect(page.beacons.map((beacon) => beacon.url)).toEqual([expect.stringContaining(double.requests[0].key)])
  })

  it('of the same origin repeats with keepalive what an ordinary fetch had under way', async () => {
    const { client, page, double, timers } = createPageRig({ origin: 'https://events.example.com' })
    double.always('hang')
    client.track('signup')
    await timers.pass(3 * SECOND_MS)
    page.end()
    expect(double.requests.map((request) => request.keepalive)).toEqual([false, true])
    expect(double.requests[1].key).toBe(double.requests[0].key)
  })

  it('sends batches so small that a browser with room for less than 60 KB takes some', async () => {
    const store = mapStore()
    const { client, page, double } = createPageRig({ quotaBytes: 20_000 }, { store })
    trackMany(client, 12, { text: 'x'.repeat(4000) })
    page.end()
    expect(page.beacons.length).toBeGreaterThan(0)
    for (const { text } of page.beacons) expect(text.length).toBeLessThanOrEqual(20_000)
    const stored = new Set(double.storedIds()).size
    expect(stored).toBeGreaterThanOrEqual(2)
    expect(stored).toBe(double.storedIds().length)
    const next = createRig({ store, double })
    await next.timers.pass(SECOND_MS)
    expect(new Set(double.storedIds()).size).toBe(12)
    expect(double.storedIds()).toHaveLength(12)
  })

  it('tries a plain fetch for what nothing else takes', () => {
    const { client, page, double } = createPageRig({ quotaBytes: 0 })
    client.track('large', { text: 'x'.repeat(100_000) })
    client.track('small')
    page.end()
    expect(page.beacons).toEqual([])
    const plain = double.requests.map((request) => request.body.events.map((event) => event.name).join(' '))
    expect(plain.join(' ').split(' ').toSorted()).toEqual(['large', 'small'])
    expect(double.requests.every((request) => !request.keepalive)).toBe(true)
  })

  it('asks for no more where nothing is left of the minute, at its end and as the next page of its store', async () => {
    const store = mapStore()
    const { client, page, double, timers } = createPageRig({}, { store })
    double.behave({ status: 202, headers: { RateLimit: '"minute";r=0;t=30' }, body: {} })
    trackMany(client, 100)
    await timers.pass(SECOND_MS)
    client.track('late')
    page.end()
    expect([page.beacons, double.requests.length]).toEqual([[], 1])
    const next = createRig({ store, double, timers })
    await timers.pass(28 * SECOND_MS)
    expect(double.requests).toHaveLength(1)
    await timers.pass(2 * SECOND_MS)
    expect(double.requests.map(({ body }) => body.events.length)).toEqual([100, 1])
    expect(next.dropped).toEqual([])
  })

  it('comes back from the cache of pages and goes on', async () => {
    const { client, page, double, timers } = createPageRig()
    page.end()
    page.restore()
    client.track('again')
    await timers.pass(3 * SECOND_MS)
    expect(double.storedIds()).toHaveLength(1)
  })

  it('is never listened for by unload, and by nothing after close', async () => {
    const { client, page } = createPageRig()
    expect([...page.listening].toSorted()).toEqual([
      'online',
      'pagehide',
      'pageshow',
      'securitypolicyviolation',
      'storage',
      'visibilitychange',
    ])
    await client.close()
    expect([...page.listening]).toEqual([])
  })
})

describe('a page', () => {
  it('cuts a backoff short when it is online again, or shown', async () => {
    for (const wake of ['online', 'show'] as const) {
      const { client, page, double, timers } = createPageRig()
      double.behave('unreachable', 'unreachable', 'unreachable')
      client.track('signup')
      await timers.pass(13 * SECOND_MS)
      expect(double.requests).toHaveLength(3)
      if (wake === 'online') page.fire('window', 'online')
      else page.show()
      await timers.pass(0)
      expect(double.storedIds()).toHaveLength(1)
    }
  })

  it('whose policy forbids the address drops what waits, and asks no more', async () => {
    const { client, page, double, timers, dropped } = createPageRig()
    double.always('unreachable')
    client.track('signup')
    await timers.pass(3 * SECOND_MS)
    page.fire('document', 'securitypolicyviolation', { ...ENFORCED, blockedURI: 'https://elsewhere.example.com/' })
    await timers.pass(6 * SECOND_MS)
    expect(double.requests).toHaveLength(2)
    page.fire('document', 'securitypolicyviolation', {
      ...ENFORCED,
      blockedURI: 'https://events.example.com/api/v1/events',
    })
    await timers.pass(3600 * SECOND_MS)
    expect(double.requests).toHaveLength(2)
    expect(dropped).toMatchObject([{ reason: 'blocked', names: ['signup'] }])
  })
})
