// Without SLUICE_SPOOL_DIR nothing is as with it but what says so: NATS gets the same bytes, clients get the same answers, and pages and
// Redis know of no spool.

import { join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { batch, expectAccepted, get, post } from '../support/client.ts'
import { type Cluster, startCluster } from '../support/cluster.ts'
import { withConnection } from '../support/jetstream.ts'
import { appRecord, eventually, makeFolder, type Service } from '../support/service.ts'
import { STREAM } from '../support/stream.ts'

/** Names of one length, so that all else has the same place. */
const WITH = { app: 'app-with', key: '6a2f41a3-c54c-4c1f-9d6b-0d4f6d2f8a11' }
const WITHOUT = { app: 'app-none', key: '6a2f41a3-c54c-4c1f-9d6b-0d4f6d2f8a22' }

let cluster: Cluster
let withSpool: Service
let without: Service

beforeAll(async () => {
  const apps = [WITH, WITHOUT].map(({ app }) => appRecord(app, { events_per_day: 100 }))
  cluster = await startCluster({ nodes: 0, apps })
  withSpool = await cluster.addNode({ SLUICE_SPOOL_DIR: join(await makeFolder(), 'spool') })
  without = await cluster.addNode()
})
afterAll(() => cluster.stop())

/** What differs from one request to the next. */
function plain(text: string): string {
  return text
    .replaceAll(/app-(with|none)/g, 'APP')
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'ID')
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, 'TIME')
    .replaceAll(/\b\d{8}\b/g, 'MINUTE')
    .replaceAll(/\b[0-9a-f]{12}\b/g, 'NODE')
}

async function send(node: Service, { app, key }: typeof WITH): Promise<string[]> {
  const answers: string[] = []
  for (const headers of [{}, { 'Idempotency-Key': key }, { 'Idempotency-Key': key }]) {
    const answer = await post(node, batch(`ak_${app}`, 3), headers)
    if (answers.length < 2) expectAccepted(answer, 3)
    const { date: _, 'x-ratelimit-reset': __, ...rest } = answer.headers
    answers.push(plain(JSON.stringify([answer.status, rest, answer.json])))
  }
  return answers
}

async function messagesOf(app: string): Promise<string[]> {
  return await withConnection(cluster.nats.url, async (connection) => {
    const { streams } = await jetstreamManager(connection)
    const { state } = await streams.info(STREAM)
    const texts: string[] = []
    for (let seq = state.first_seq; seq <= state.last_seq; seq++) {
      const message = await streams.getMessage(STREAM, { seq })
      if (message === null || !message.string().includes(app)) continue
      const headers = message.header.keys().map((name) => [name, message.header.values(name)])
      texts.push(plain(JSON.stringify({ headers, record: message.string() })))
    }
    return texts
  })
}

test('the same goes to NATS and to clients', async () => {
  const answers = [await send(withSpool, WITH), await send(without, WITHOUT)]
  expect(answers[1]).toEqual(answers[0])
  const [one, other] = await Promise.all([WITH, WITHOUT].map(({ app }) => messagesOf(app)))
  expect(one).toHaveLength(2)
  expect(other).toEqual(one)
  expect(other.join('\n')).not.toMatch(/spool/i)
})

test('pages have no series, part or word of a spool, and all others', async () => {
  const names = async (node: Service): Promise<Set<string>> => {
    const { text } = await get(node.adminPort, '/metrics')
    return new Set(text.split('\n').flatMap((line) => /^(sluice_\w+)/.exec(line)?.[1] ?? []))
  }
  // Some are known after the first round of the audit.
  await eventually('both nodes audit', async () => {
    const known = await Promise.all([names(withSpool), names(without)])
    return known.every((each) => each.has('sluice_audit_lag_seconds') && each.has('sluice_clock_skew_seconds'))
  })
  const [one, other] = [await names(withSpool), await names(without)]
  const more = [...one].filter((name) => !other.has(name))
  expect(more.sort()).toEqual(['batches', 'bytes', 'max_bytes', 'oldest_seconds'].map((name) => `sluice_spool_${name}`))
  expect([...other].filter((name) => !one.has(name))).toEqual([])
  for (const path of ['/readyz?verbose', '/api/now', `/api/apps?app=${WITHOUT.app}`])
    expect((await get(without.adminPort, path)).text, path).not.toMatch(/spooled|"spool"|spool:/)
})

test('Redis has no field of a spool', async () => {
  const redis = new Redis(cluster.redis.url)
  const fields = (await Promise.all((await redis.keys('sluice:*:app:*')).map((key) => redis.hkeys(key)))).flat()
  redis.disconnect()
  expect(fields.length).toBeGreaterThan(0)
  expect(fields.filter((name) => /^s(:|$)/.test(name))).toEqual([])
})
