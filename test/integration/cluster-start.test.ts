// The start of a node beside others: what it must know before its first request.

import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { send, single } from '../support/client.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { startProxy } from '../support/proxy.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { appRecord, makeFolder, sleep, startService } from '../support/service.ts'

/** Longer than the rest of a start, and shorter than its wait for Redis. */
const REDIS_SILENT_MS = 1500

describe('the start of a node', () => {
  let redis: RedisServer
  let nats: NatsServer
  let dataDir = ''

  beforeAll(async () => {
    ;[redis, nats, dataDir] = await Promise.all([startRedis(), startNats(), makeFolder()])
  })

  it('waits for Redis for a while, so that its first requests are counted with those of the others', async () => {
    const proxy = await startProxy(redis.port)
    proxy.hold()
    let isListening = false
    const starting = startService({
      dataDir,
      apps: [appRecord('first')],
      env: {
        REDIS_URL: `redis://127.0.0.1:${proxy.port}`,
        NATS_URL: nats.url,
        SLUICE_APPS_FILE: join(dataDir, 'apps.json'),
      },
    }).then((service) => {
      isListening = true
      return service
    })
    await sleep(REDIS_SILENT_MS)
    const wasListening = isListening
    proxy.heal()
    const node = await starting
    const { status } = await send(node, { body: single('ak_first') })
    await node.kill()
    await proxy.stop()
    expect(wasListening).toBe(false)
    expect(status).toBe(202)
  })
})
