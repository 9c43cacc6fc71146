// The commands over Redis and NATS: test/transcripts/shared. Each test finds both empty.

import { Redis } from 'ioredis'
import { beforeAll } from 'vitest'
import { emptyNats } from '../support/jetstream.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { runTranscripts } from '../support/transcript.ts'

let redis: RedisServer
let nats: NatsServer
beforeAll(async () => {
  ;[redis, nats] = await Promise.all([startRedis(), startNats()])
})

runTranscripts('shared', {
  prepare: async () => {
    const client = new Redis(redis.port, '127.0.0.1')
    await client.flushall()
    client.disconnect()
    await emptyNats(nats.url)
    const pids = { REDIS_PID: String(redis.pid), NATS_PID: String(nats.pid) }
    return { REDIS_URL: redis.url, NATS_URL: nats.url, SLUICE_ADMIN_HOST: '127.0.0.1', ...pids }
  },
})
