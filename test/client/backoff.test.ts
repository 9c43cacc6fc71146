import { describe, expect, it } from 'vitest'
import type { Behaviour } from './support/double.ts'
import { createRig, mapStore, trackMany, waiting } from './support/rig.ts'

const SECOND_MS = 1000
const HOUR_MS = 3600 * SECOND_MS

/** Times between tries, in seconds. */
function pausesOf(requests: readonly { atMs: number }[]): number[] {
  return requests.slice(1).map(({ atMs }, index) => (atMs - requests[index].atMs) / SECOND_MS)
}

const refusing = (status: number, headers: Record<string, string> = {}): Behaviour => ({ status, headers })

describe('backoff', () => {
  it.each([
    [0, [1.5, 3, 6, 12, 24, 48, 96, 192, 384]],
    [1, [3, 6, 12, 24, 48, 96, 192, 384, 768]],
  ])(
    'waits 3 s · 2ⁿ, less up to half by chance (%f), and rests for an hour after ten tries',
    async (chance, pauses) => {
      const { client, timers, double } = createRig({ random: () => chance })
      double.always('unreachable')
      client.track('signup')
      await timers.pass(2 * HOUR_MS)
      expect(pausesOf(double.requests).slice(0, 10)).toEqual([...pauses, 3600])
      double.always('answer')
      await timers.pass(2 * HOUR_MS)
      expect(double.storedIds()).toHaveLength(1)
    },
  )

  it('begins anew after a success', async () => {
    const { client, timers, double } = createRig({ random: () => 1 })
    double.behave('unreachable', 'unreachable', 'answer', 'unreachable')
    trackMany(client, 200)
    await timers.pass(60 * SECOND_MS)
    expect(pausesOf(double.requests)).toEqual([3, 6, 0, 3])
  })

  it.each([500, 502, 503, 504, 408, 200, 302])('tries again after %i', async (status) => {
    const { client, timers, double } = createRig()
    double.behave(refusing(status))
    client.track('signup')
    await timers.pass(10 * SECOND_MS)
    expect(double.storedIds()).toHaveLength(1)
  })

  it('gives up on an answer after 30 s, and tries again', async () => {
    const { client, timers, double } = createRig({ random: () => 1 })
    double.behave('hang')
    client.track('signup')
    await timers.pass(60 * SECOND_MS)
    expect(pausesOf(double.requests)).toEqual([33])
  })

  it('waits for Retry-After, in seconds or as a date, with no more than a twentieth on top', async () => {
    for (const header of ['40', 'Fri, 20 Nov 2026 12:00:43 GMT']) {
      const { client, timers, double } = createRig({ random: () => 1 })
      double.behave(refusing(429, { 'Retry-After': header }))
      client.track('signup')
      await timers.pass(60 * SECOND_MS)
      expect(pausesOf(double.requests)).toEqual([42])
    }
  })

  it('asks once a day where Retry-After is a month, which is longer than a timer can be', async () => {
    const { client, timers, double } = createRig({ random: () => 0 })
    double.always(refusing(429, { 'Retry-After': '2678400' }))
    client.track('signup')
    await timers.pass(50 * HOUR_MS)
    expect(pausesOf(double.requests)).toEqual([24 * 3600, 24 * 3600])
  })

  it('waits for Retry-After whatever wakes it: flush, more events, another client of the store', async () => {
    const store = mapStore()
    const { client, timers, double } = createRig({ store })
    double.behave(refusing(429, { 'Retry-After': '600' }))
    client.track('signup')
    expect(await client.flush()).toBe(false)
    trackMany(client, 100)
    expect(await client.flush()).toBe(false)
    await client.close()
    const next = createRig({ store, timers, double })
    expect(await next.client.flush()).toBe(false)
    await timers.pass(599 * SECOND_MS)
    expect(double.requests).toHaveLength(1)
    await timers.pass(60 * SECOND_MS)
    expect(double.storedIds()).toHaveLength(101)
  })

  const JUMPS = [-40 * 24 * HOUR_MS, -2 * HOUR_MS, 2 * HOUR_MS, 48 * HOUR_MS]

  it.each(JUMPS)('is as long as ever where the clock of the day is set by %i ms', async (jumpMs) => {
    const { client, timers, double } = createRig({ random: () => 1 })
    double.behave('unreachable', 'unreachable')
    client.track('signup')
    await timers.pass(3 * SECOND_MS)
    timers.startMs += jumpMs
    const { atMs } = double.requests[0]
    await timers.pass(9 * SECOND_MS)
    expect(double.requests.map((request) => (request.atMs - atMs) / SECOND_MS)).toEqual(
      [0, 3, 9].map((seconds) => seconds + (seconds && jumpMs / SECOND_MS)),
    )
  })

  it.each(JUMPS)('of Retry-After, and of a paced minute, too: %i ms', async (jumpMs) => {
    for (const answer of [
      refusing(429, { 'Retry-After': '60' }),
      { status: 202, headers: { RateLimit: '"minute";r=1;t=60' } },
    ]) {
      const { client, timers, double } = createRig({ random: () => 0 })
      double.behave(answer)
      client.track('first')
      await client.flush()
      timers.startMs += jumpMs
      client.track('second')
      await timers.pass(59 * SECOND_MS)
      await client.flush()
      expect(double.requests).toHaveLength(1)
      await timers.pass(1 * SECOND_MS)
      await client.flush()
      expect(double.requests.length).toBeGreaterThan(1)
    }
  })

  it.each(JUMPS)('for the next client of the store is never longer than it was: %i ms', async (jumpMs) => {
    const store = mapStore()
    const { client, timers, double } = createRig({ store, random: () => 0 })
    double.behave(refusing(429, { 'Retry-After': '60' }))
    client.track('signup')
    await client.close()
    timers.startMs += jumpMs
    const next = createRig({ store, timers, double })
    await timers.pass(60 * SECOND_MS)
    await next.client.flush()
    expect(double.requests).toHaveLength(2)
  })

  it('does not wait for a clock that was set back', async () => {
    const store = mapStore(new Map([['wait', String(Date.parse('2027-01-01T00:00:00Z'))]]))
    const { client, double } = createRig({ store })
    client.track('signup')
    expect(await client.flush()).toBe(true)
    expect(double.requests).toHaveLength(1)
  })

  it.each([
    [401, 'unauthorized'],
    [402, 'subscription'],
    [403, 'blocked'],
    [404, 'refused'],
    [415, 'refused'],
  ])('drops a batch on %i (%s), and does not try again', async (status, reason) => {
    const { client, timers, double, dropped, store } = createRig()
    double.behave(refusing(status))
    client.track('signup')
    await timers.pass(HOUR_MS)
    expect(double.requests).toHaveLength(1)
    expect(dropped).toMatchObject([{ reason, names: ['signup'] }])
    expect(waiting(store)).toEqual([])
  })

  it('sends oldest first', async () => {
    const { client, timers, double } = createRig()
    double.behave('unreachable')
    client.track('first')
    await timers.pass(3 * SECOND_MS)
    client.track('second')
    await timers.pass(60 * SECOND_MS)
    expect(double.requests.map((request) => request.body.events[0].name)).toEqual(['first', 'first', 'second'])
  })
})
