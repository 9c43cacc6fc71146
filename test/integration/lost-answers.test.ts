// What a node sends again where Redis has done a call and its answer is lost.

import type { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { NODES_KEY } from '../../src/limits/shared/nodes.ts'
import { connectTo, limitNode } from '../support/limits.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { usageOf } from '../support/usage.ts'
import { anApp } from '../unit/apps/apps.ts'

const NOON_MS = Date.UTC(2026, 10, 20, 12)

let server: RedisServer
let client: Redis
beforeAll(async () => {
  server = await startRedis()
  client = connectTo(server.url)
})
beforeEach(() => client.flushall())
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

it('never what was given back: an app could take it twice', async () => {
  const app = anApp({ eventsPerMinute: 100 })
  const other = limitNode(client, 'other', () => NOON_MS)
  const { admission, link } = limitNode(client, 'one', () => NOON_MS)
  await expect.poll(() => client.zcard(NODES_KEY)).toBe(2)
  await other.admission.admit(app, 20, null)
  const admitted = await admission.admit(app, 10, null)
  if (admitted.kind !== 'taken') throw new Error(admitted.kind)
  link.isHolding = true
  admission.end(app, admitted.charge, null, 'refused', 0)
  await link.idle()
  expect((await usageOf(other.admission, app)).minute.used).toBe(20)
  link.set(false)
  link.isHolding = false
  link.set(true)
  // Behind whatever it sends again.
  expect((await admission.admit(app, 1, null)).kind).toBe('taken')
  await link.idle()
  expect((await usageOf(other.admission, app)).minute.used).toBe(21)
  await admission.stop()
  await other.admission.stop()
})
