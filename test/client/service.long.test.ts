// Long outages, kills, limits and full disks: each event is stored once or reported.

import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { startProxy } from '../support/proxy.ts'
import { appRecord, eventually, makeFolder, roomInMinute } from '../support/service.ts'
import { buildClient, filedIds, freePort, start, startClient, storedIds, urlOf } from './support/stored.ts'

const TRACKER = join(import.meta.dirname, 'support/tracker.mjs')

function expectStoredOnce(dataDir: string, ids: readonly string[]): void {
  const stored = storedIds(dataDir)
  expect(stored.length).toBe(new Set(stored).size)
  expect(new Set(stored)).toEqual(new Set(ids))
}

it('a client that is killed with -9 loses nothing that it had sealed, and stores nothing twice', async () => {
  const service = await start({ apps: [appRecord('plain', { events_per_minute: 1e6 })] })
  const built = buildClient(await makeFolder())
  const folder = await makeFolder()
  const sealed = new Set<string>()
  for (let round = 0; round < 2; round++) {
    const before = storedIds(service.dataDir).length
    const child = spawn(process.execPath, [TRACKER, built, urlOf(service), folder], { stdio: 'inherit' })
    // After a kill the lease of the dead has to end first.
    await eventually('the client sends', () => storedIds(service.dataDir).length > before, 30_000)
    child.kill('SIGKILL')
    await once(child, 'close')
    for (const id of filedIds(folder)) sealed.add(id)
  }
  const { client, dropped } = startClient(urlOf(service), folder)
  await eventually('the rest is taken', () => client.flush(), 30_000)
  const stored = storedIds(service.dataDir)
  expect(sealed.size).toBeGreaterThan(0)
  expect([...sealed].filter((id) => !stored.includes(id))).toEqual([])
  expect(stored.length).toBe(new Set(stored).size)
  expect(dropped).toEqual([])
})

it('two processes with one folder store all events once, and the second goes on when the first is killed', async () => {
  const service = await start({ apps: [appRecord('plain', { events_per_minute: 1e6 })] })
  const built = buildClient(await makeFolder())
  const folder = await makeFolder()
  const child = spawn(process.execPath, [TRACKER, built, urlOf(service), folder], { stdio: 'inherit' })
  await eventually('the first sends', () => storedIds(service.dataDir).length > 0)
  const { client, tracked } = startClient(urlOf(service), folder)
  for (let count = 0; count < 300; count++) client.track('second')
  await eventually('the first sends those of the second', () => storedIds(service.dataDir).includes(tracked[0]), 30_000)
  child.kill('SIGKILL')
  await once(child, 'close')
  const left = filedIds(folder)
  await eventually('the second sends the rest', () => client.flush(), 40_000)
  const stored = new Set(storedIds(service.dataDir))
  expect([...left, ...tracked].filter((id) => !stored.has(id))).toEqual([])
  expect(storedIds(service.dataDir).length).toBe(stored.size)
})

// One wait for the next minute serves both.
it('waits for the minute of its limit, sends a batch larger than a minute in halves, and stores all events once', async () => {
  const limited = await start({ apps: [appRecord('plain', { events_per_minute: 100 })] })
  const small = await start({ apps: [appRecord('plain', { events_per_minute: 60 })] })
  await roomInMinute(5)
  const halving = startClient(urlOf(small), await makeFolder())
  for (let count = 0; count < 100; count++) halving.client.track('event')
  const { client, tracked, dropped } = startClient(urlOf(limited), await makeFolder())
  for (let count = 0; count < 200; count++) client.track('event')
  expect(await client.flush()).toBe(false)
  expect(storedIds(limited.dataDir)).toHaveLength(100)
  expect(await halving.client.flush()).toBe(false)
  expect(storedIds(small.dataDir)).toHaveLength(50)
  await eventually('the next minute takes the rest', () => storedIds(limited.dataDir).length === 200, 90_000)
  await eventually('both halves are stored', () => storedIds(small.dataDir).length === 100, 90_000)
  expectStoredOnce(limited.dataDir, tracked)
  expectStoredOnce(small.dataDir, halving.tracked)
  expect([...dropped, ...halving.dropped]).toEqual([])
})

it('holds events while the journal of the service is full', async () => {
  const port = String(await freePort())
  const service = await start({ env: { SLUICE_JOURNAL_MAX_MB: '1', PORT: port } })
  const { client, tracked, dropped } = startClient(urlOf(service), await makeFolder(), { maxQueueBytes: 10e6 })
  for (let count = 0; count < 3000; count++) client.track('event', { text: 'x'.repeat(450) })
  expect(await client.flush()).toBe(false)
  expect(storedIds(service.dataDir).length).toBeLessThan(3000)
  const env = { SLUICE_JOURNAL_MAX_MB: '50', PORT: port }
  await service.kill()
  await start({ dataDir: service.dataDir, env })
  await eventually('the rest is taken', () => client.flush(), 60_000)
  expectStoredOnce(service.dataDir, tracked)
  expect(dropped).toEqual([])
})

it('stores each event once through a network that swallows answers for longer than the client waits', async () => {
  const service = await start()
  const proxy = await startProxy(service.port)
  onTestFinished(() => proxy.stop())
  const { client, tracked } = startClient(urlOf(proxy), await makeFolder())
  client.track('before')
  expect(await client.flush()).toBe(true)
  proxy.hold()
  client.track('swallowed')
  // The client gives up after 30 s; what was swallowed then arrives late, and the retry has the same key.
  expect(await client.flush()).toBe(false)
  proxy.heal()
  await eventually('the retry is answered', () => client.flush(), 60_000)
  proxy.delay(300)
  for (let count = 0; count < 1000; count++) client.track('slow')
  await eventually('all are taken', () => client.flush(), 60_000)
  expectStoredOnce(service.dataDir, tracked)
})

it('keeps in memory what its full disk does not take, and stores it', async (context) => {
  const folder = await makeFolder()
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder], { stdio: 'ignore' })
  } catch {
    context.skip('no tmpfs can be mounted here (it takes root on Linux)')
  }
  onTestFinished(() => void execFileSync('umount', ['-l', folder]))
  const service = await start()
  const proxy = await startProxy(service.port)
  onTestFinished(() => proxy.stop())
  const { client, tracked, dropped } = startClient(urlOf(proxy), folder)
  await eventually('it holds the lease', () => client.flush())
  writeFileSync(join(folder, '.filler'), 'x'.repeat(40_000))
  proxy.cut()
  for (let count = 0; count < 500; count++) client.track('event', { text: 'x'.repeat(200) })
  expect(await client.flush()).toBe(false)
  expect(filedIds(folder).length).toBeLessThan(500)
  proxy.heal()
  await eventually('all are taken', () => client.flush(), 60_000)
  expectStoredOnce(service.dataDir, tracked)
  expect(dropped).toEqual([])
})
