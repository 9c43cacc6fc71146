// One machine that shares only half of its stores: the queue in NATS with limits of its own, or limits and keys in Redis
// with a journal of its own.

import { randomUUID } from 'node:crypto'
import { afterEach, describe, expect, test } from 'vitest'
import { batch, expectAccepted, expectRefused, figures, get, post } from '../support/client.ts'
import { startNats } from '../support/nats.ts'
import { startRedis } from '../support/redis.ts'
import {
  appRecord,
  eventually,
  makeFolder,
  removeFolder,
  roomInMinute,
  type Service,
  startService,
} from '../support/service.ts'

const cleanUps: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

interface Machine {
  start(): Promise<Service>
}

async function aMachine(env: Readonly<Record<string, string>>): Promise<Machine> {
  const dataDir = await makeFolder()
  cleanUps.push(() => removeFolder(dataDir))
  const apps = [appRecord('one'), appRecord('small', { events_per_day: 10 })]
  return {
    start: async () => {
      const service = await startService({ dataDir, apps, env: { SLUICE_APPS_FILE: `${dataDir}/apps.json`, ...env } })
      cleanUps.push(() => service.kill())
      await eventually('it is ready', async () => (await get(service.adminPort, '/readyz')).status === 200)
      return service
    },
  }
}

const sharing = {
  NATS: async () => {
    const nats = await startNats()
    cleanUps.push(() => nats.stop())
    return { NATS_URL: nats.url }
  },
  Redis: async () => {
    const redis = await startRedis()
    cleanUps.push(() => redis.stop())
    return { REDIS_URL: redis.url }
  },
}

describe.each(['NATS', 'Redis'] as const)('with %s alone', (shared) => {
  test('a key is accepted once, through kill -9 too', async () => {
    const machine = await aMachine(await sharing[shared]())
    const service = await machine.start()
    const headers = { 'Idempotency-Key': randomUUID() }
    const batchId = expectAccepted(await post(service, batch('ak_one', 3), headers), 3)
    expect(expectAccepted(await post(service, batch('ak_one', 3), headers), 3, true)).toBe(batchId)
    await service.kill()
    const next = await machine.start()
    expect(expectAccepted(await post(next, batch('ak_one', 3), headers), 3, true)).toBe(batchId)
  })

  test('counters come back after a clean stop, and after kill -9 are never short', async () => {
    await roomInMinute(20)
    const machine = await aMachine(await sharing[shared]())
    const service = await machine.start()
    expectAccepted(await post(service, batch('ak_small', 4)), 4)
    expect((await service.stop()).code).toBe(0)
    const second = await machine.start()
    expectAccepted(await post(second, batch('ak_small', 3)), 3)
    expectRefused(await post(second, batch('ak_small', 4)), 429, 'daily_limit_exceeded')
    await second.kill()
    const third = await machine.start()
    expectRefused(await post(third, batch('ak_small', 4)), 429, 'daily_limit_exceeded')
    const left = figures(await post(third, batch('ak_small', 4)))
    expect(left.remaining).toBeLessThanOrEqual(left.limit - 7)
  })

  test('the half that is not shared says so on /readyz', async () => {
    const service = await (await aMachine(await sharing[shared]())).start()
    const parts = (await get(service.adminPort, '/readyz?verbose')).text
    expect(parts).toContain(shared === 'NATS' ? 'queue: JetStream' : 'queue: journal')
    expect(parts).toContain(shared === 'NATS' ? 'limits: memory' : 'limits: Redis')
  })
})

test('with NATS alone and away, the start says that it cannot be reached', async () => {
  const machine = await aMachine({ NATS_URL: 'nats://127.0.0.1:1' })
  await expect(machine.start()).rejects.toThrow(/ended at start \(1\)[^]*NATS cannot be reached/)
})
