// The client on Node against the service itself.

import { randomUUID } from 'node:crypto'
import { expect, it, onTestFinished, vi } from 'vitest'
import { createClientOn } from '../../clients/typescript/src/client.ts'
import { systemPlatform } from '../../clients/typescript/src/platform.ts'
import { startProxy } from '../support/proxy.ts'
import { appRecord, eventually, makeFolder } from '../support/service.ts'
import { freePort, start, startClient, storedEvents, storedIds, urlOf } from './support/stored.ts'

const YEAR_MS = 365 * 86_400_000

it('stores events of every type, compressed, with the members that the schema wants', async () => {
  const service = await start()
  const { client, tracked, dropped } = startClient(urlOf(service), await makeFolder())
  client.track('signup', { plan: 'yearly', text: 'é'.repeat(400) })
  client.screen('start')
  client.revenue('purchase', { amount: 9.99, currency: 'EUR' })
  for (let count = 0; count < 500; count++) client.track('scroll', { text: 'x'.repeat(300) })
  expect(await client.flush()).toBe(true)
  expect(storedIds(service.dataDir)).toEqual(tracked)
  expect(dropped).toEqual([])
})

it('stores each event once though the service is killed with -9 again and again', async () => {
  const port = await freePort()
  let service = await start({ env: { PORT: String(port) } })
  const { dataDir } = service
  const { client, tracked, dropped } = startClient(`http://127.0.0.1:${port}`, await makeFolder())
  for (let round = 0; round < 2; round++) {
    const before = storedIds(dataDir).length
    const tracking = setInterval(() => {
      for (let count = 0; count < 50; count++) client.track('event', { text: 'x'.repeat(200) })
    }, 2)
    await eventually('some are stored', () => storedIds(dataDir).length > before + 300)
    await service.kill()
    clearInterval(tracking)
    service = await start({ dataDir, env: { PORT: String(port) } })
    await eventually('the rest is taken', () => client.flush())
  }
  const stored = storedIds(dataDir)
  expect(new Set(stored).size).toBe(stored.length)
  expect(new Set(stored)).toEqual(new Set(tracked))
  expect(dropped).toEqual([])
})

it('stores each event once though the network breaks, and holds them while it is away', async () => {
  const service = await start()
  const proxy = await startProxy(service.port)
  onTestFinished(() => proxy.stop())
  const { client, tracked } = startClient(urlOf(proxy), await makeFolder())
  for (let round = 0; round < 3; round++) {
    for (let count = 0; count < 300; count++) client.track('event', { text: 'x'.repeat(200) })
    const flushed = client.flush()
    await eventually('some are stored', () => storedIds(service.dataDir).length > round * 300)
    proxy.cut()
    await flushed
    client.track('offline')
    expect(await client.flush()).toBe(false)
    proxy.heal()
    await eventually('the rest is taken', () => client.flush())
  }
  const stored = storedIds(service.dataDir)
  expect(stored.length).toBe(new Set(stored).size)
  expect(new Set(stored)).toEqual(new Set(tracked))
})

it('reports a batch whose key was used for other events, which the service does not store', async () => {
  const service = await start()
  const { client, tracked, dropped } = startClient(urlOf(service), await makeFolder())
  const key = randomUUID()
  const send = globalThis.fetch
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    const headers = new Headers(init.headers)
    headers.set('Idempotency-Key', key)
    return send(url, { ...init, headers })
  })
  onTestFinished(() => void vi.unstubAllGlobals())
  client.track('first')
  expect(await client.flush()).toBe(true)
  expect(dropped).toEqual([])
  client.track('second')
  await client.flush()
  expect(dropped).toEqual([{ reason: 'key_reused', ids: [tracked[1]] }])
  expect(storedIds(service.dataDir)).toEqual([tracked[0]])
})

it('drops the events that the service refuses, one by one, and stores the others', async () => {
  const service = await start()
  const { client, tracked, dropped } = startClient(urlOf(service), await makeFolder())
  for (let index = 0; index < 30; index++) client.track(index % 10 === 3 ? '' : `event ${index}`)
  expect(await client.flush()).toBe(true)
  expect(dropped.flatMap((drop) => drop.ids)).toEqual([3, 13, 23].map((index) => tracked[index]))
  expect(dropped.every((drop) => drop.reason === 'invalid')).toBe(true)
  expect(storedIds(service.dataDir)).toHaveLength(27)
})

it('stores events of a clock that is two years slow or fast, at the right time', async () => {
  const service = await start()
  for (const aheadMs of [2 * YEAR_MS, -2 * YEAR_MS]) {
    const platform = systemPlatform()
    const timers = { ...platform.timers, nowMs: () => Date.now() + aheadMs }
    const client = createClientOn({ ...platform, timers }, { url: urlOf(service), appKey: 'ak_plain' })
    onTestFinished(() => client.close(0))
    for (let count = 0; count < 50; count++) client.track('event')
    await eventually('all are stored', () => client.flush())
  }
  const stored = storedEvents(service.dataDir)
  expect(stored).toHaveLength(100)
  for (const { timestamp, client_timestamp } of stored) {
    expect(Math.abs(Date.parse(timestamp) - Date.now())).toBeLessThan(300_000)
    expect(Math.abs(Date.parse(client_timestamp!) - Date.now())).toBeGreaterThan(YEAR_MS)
  }
})

it.each([
  ['unauthorized', 'ak_unknown', 'active'],
  ['subscription', 'ak_plain', 'canceled'],
] as const)('drops a batch that is %s after one request', async (reason, appKey, subscription) => {
  const service = await start({ apps: [appRecord('plain', { subscription })] })
  const { client, tracked, dropped } = startClient(urlOf(service), await makeFolder(), { appKey })
  client.track('signup')
  expect(await client.flush()).toBe(true)
  expect(dropped).toEqual([{ reason, ids: tracked }])
})
