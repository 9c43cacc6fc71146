// App records in the bucket, edited one at a time, as the API of the admin port does.

import type { NatsConnection } from '@nats-io/transport-node'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { AppRecord } from '../../src/apps/app-record.ts'
import { writeToBucket } from '../../src/installation/shared-record.ts'
import { systemTimers } from '../../src/lib/timers.ts'
import { Bucket } from '../../src/nats/bucket.ts'
import { connectNats } from '../../src/nats/connection.ts'
import { APPS_BUCKET } from '../../src/nats/store-names.ts'
import { type AppRecords, withAppRecords } from '../../src/records/app-records.ts'
import { FOREIGN } from '../../src/records/bucket-records.ts'
import type { Config } from '../../src/settings/config.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { appRecord } from '../support/service.ts'

let nats: NatsServer
let connection: NatsConnection
let bucket: Bucket

beforeAll(async () => {
  nats = await startNats()
  connection = await connectNats(nats.url)
  bucket = new Bucket(connection, APPS_BUCKET)
})
afterAll(() => connection.close())

function withRecords<T>(use: (records: AppRecords) => Promise<T>): Promise<T> {
  const place = {
    appsFile: null,
    appsFileNamed: false,
    nats: { url: nats.url, urlFile: null, credsFile: null, caFile: null, certFile: null, keyFile: null },
    redis: null,
    stream: { replicas: 1 } as Config['stream'],
  }
  return withAppRecords(place, () => Date.now(), use)
}

const editOne = (appId: string, next: ReturnType<typeof appRecord> | null) =>
  withRecords((records) => records.editOne(appId, () => next as AppRecord | null))

describe('one record', () => {
  it('is written as soon as somebody takes it, as while a new bucket has no leader', async () => {
    const later = new Bucket(connection, 'LATER')
    await expect(later.write('shop', '{}', 0)).rejects.toThrow('JetStream is not enabled')
    const written = later.writeOnceLed('shop', '{}', { revision: 0, timers: systemTimers })
    await later.ensure(1)
    expect(await written).toBe('done')
    expect(await later.read('shop')).toMatchObject({ text: '{}' })
  })

  it('is made, replaced and removed', async () => {
    await editOne('shop', appRecord('shop'))
    await editOne('shop', appRecord('shop', { plan: '10k' }))
    expect(await withRecords((records) => records.one('shop'))).toEqual(appRecord('shop', { plan: '10k' }))
    await editOne('shop', null)
    expect(await withRecords((records) => records.one('shop'))).toBeUndefined()
  })

  it('is not edited over an entry that is no app record, which the commands do not overwrite either', async () => {
    await bucket.write('damaged', '{"plan":"7m"}', 0)
    await expect(editOne('damaged', appRecord('damaged'))).rejects.toThrow(
      'the entry damaged of SLUICE_APPS is not an app record; run sluice apps remove damaged first',
    )
    expect((await bucket.read('damaged'))?.text).toBe('{"plan":"7m"}')
  })

  it('is not edited in a bucket that the nodes do not use', async () => {
    const known = { createdAt: '2026-01-01T00:00:00Z', messages: 100, firstSequence: 1, lastSequence: 100 }
    const stores = { apps: { ...known, firstAtMs: null, lastAtMs: null, keepMs: null, generation: 1 } }
    const record = { v: 1, writtenAtMs: 1, partitions: 16, stores } as const
    expect(await writeToBucket(connection, record, { revision: 0, replicas: 1 })).toBe(true)
    const before = await bucket.describe()
    await expect(editOne('new', appRecord('new'))).rejects.toThrow(FOREIGN)
    expect(await bucket.describe()).toEqual(before)
  })
})
