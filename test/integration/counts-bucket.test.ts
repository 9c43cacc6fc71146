// The audit's entries in NATS, and how it reads entries that are not valid.

import { createHash } from 'node:crypto'
import { brotliCompressSync } from 'node:zlib'
import { jetstream } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { CountsBucket } from '../../src/audit/counts-bucket.ts'
import { readAlerts } from '../../src/audit/stored-alerts.ts'
import { PartitionTotals, type SavedTotals } from '../../src/audit/totals.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { anAlert } from '../unit/inspect/reports.ts'

let nats: NatsServer
let connection: NatsConnection
let bucket: CountsBucket
beforeAll(async () => {
  nats = await startNats()
  connection = await connect({ servers: nats.url })
  bucket = await CountsBucket.open(connection, 1)
})
afterAll(() => connection.close())

it('keeps the totals of a partition, and the sequence from which to read again', async () => {
  const totals = new PartitionTotals('2026-11-20T12:00:00Z', null)
  const cost = { cycleMinute: 10, events: 5 }
  totals.read({ sequence: 7, timeUs: 70 }, [{ ...cost, minute: 12, appId: '__proto__' }], 20)
  totals.read({ sequence: 8, timeUs: 80 }, [{ ...cost, minute: 21, appId: 'one' }], 20)
  totals.read({ sequence: 9, timeUs: 90 }, [{ ...cost, minute: 12, appId: 'one' }], 20)
  totals.close(20)
  const saved = totals.save()
  expect(saved).toMatchObject({ sequence: 9, from: 8, minute: 20 })
  const revision = await bucket.write(3, saved, 0)
  expect(await bucket.read(3)).toEqual({ saved, revision })
  await expect(bucket.write(3, saved, 0)).rejects.toThrow('wrong last sequence')
  expect(await bucket.read(4)).toEqual({ saved: null, revision: 0 })
})

it.each([
  ['text', Buffer.from('junk')],
  ['another version', brotliCompressSync('{"v":2}')],
  ['no place', brotliCompressSync('{"v":1,"created":"x","apps":{}}')],
  [
    'apps of another shape',
    brotliCompressSync('{"v":1,"created":"x","sequence":1,"timeUs":1,"minute":1,"from":1,"apps":{"a":1}}'),
  ],
])('takes an entry with %s to be absent, and writes over it', async (_what, bytes) => {
  const entries = await new Kvm(jetstream(connection)).open('SLUICE_COUNTS')
  const revision = await entries.put('p5', bytes)
  expect(await bucket.read(5)).toEqual({ saved: null, revision })
  const saved = new PartitionTotals('x', null).save()
  await bucket.write(5, saved, revision)
  expect((await bucket.read(5)).saved).toEqual(saved)
})

it('says what to do where the sums of too many apps do not fit into a message, and keeps the entry', async () => {
  const apps = (count: number): SavedTotals['apps'] =>
    Object.fromEntries(
      Array.from({ length: count }, (_, at) => [
        `app_${createHash('sha1').update(`${at}`).digest('hex')}`,
        [30_000_000, 29_990_000, [[29_990_000, at]], 20_800, Array.from({ length: 35 }, (_, day) => at * (day + 7))],
      ]),
    )
  const some: SavedTotals = { ...new PartitionTotals('x', null).save(), apps: apps(10) }
  const revision = await bucket.write(6, some, 0)
  const writing = bucket.write(6, { ...some, apps: apps(20_000) }, revision)
  await expect(writing).rejects.toThrow(
    /^the sums of its 20000 apps take \d+ bytes, and NATS takes 1048576 in one message: set max_payload to 8MB on all NATS/,
  )
  expect(await bucket.read(6)).toEqual({ saved: some, revision })
})

it('forgets the alerts of apps that had none for 35 days, and keeps those of others and the totals', async () => {
  const DAY_MS = 86_400_000
  const nowMs = Date.now()
  const totals = await bucket.read(3)
  const idOf = (number: number): string => `00000000-0000-5000-8000-${String(number).padStart(12, '0')}`
  const add = async (appId: string, number: number): Promise<void> =>
    await bucket.addAlerts(
      appId,
      [anAlert({ id: idOf(number), app_id: appId, at: new Date(nowMs).toISOString() })],
      nowMs,
    )
  const appsWithAlerts = async (): Promise<string[]> => {
    const alerts = await readAlerts(connection, null)
    return alerts === 'away' ? expect.fail() : alerts.map(({ app_id: appId }) => appId).toSorted()
  }
  // More than one call looks at.
  const apps = Array.from({ length: 150 }, (_, at) => `app-${String(at).padStart(3, '0')}`)
  for (const [at, appId] of apps.entries()) await add(appId, at)
  await bucket.forgetAlerts(nowMs + 35 * DAY_MS)
  expect(await appsWithAlerts()).toEqual(apps)
  await bucket.forgetAlerts(nowMs + 37 * DAY_MS)
  expect(await appsWithAlerts()).toEqual(apps.slice(100))
  await bucket.forgetAlerts(nowMs + 37 * DAY_MS)
  expect(await appsWithAlerts()).toEqual([])
  expect(await readAlerts(connection, 'app-000')).toEqual([])
  expect(await bucket.read(3)).toEqual(totals)
  // One that comes back is stored again. Another auditor begins with the marks of what is deleted.
  await add('app-000', 1000)
  const other = await CountsBucket.open(connection, 1)
  await other.forgetAlerts(nowMs + 37 * DAY_MS)
  expect(await appsWithAlerts()).toEqual(['app-000'])
  await other.forgetAlerts(nowMs + 37 * DAY_MS)
  expect(await appsWithAlerts()).toEqual([])
})
