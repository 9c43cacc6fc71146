// What the audit of a partition tells: messages that come after their minute was closed, and alerts.

import type { NatsConnection } from '@nats-io/transport-node'
import { afterEach, expect, test, vi } from 'vitest'
import type { CountsBucket } from '../../../src/audit/counts-bucket.ts'
import { PartitionAudit } from '../../../src/audit/partition-audit.ts'
import type { SavedTotals } from '../../../src/audit/totals.ts'
import type { Alert } from '../../../src/contract/alert.ts'
import type { Entry } from '../../../src/queue/stream/lanes.ts'
import { headersOf } from '../../../src/queue/stream/nats-message.ts'
import { type CostMessage, CostReader } from '../../../src/queue/stream/read/cost-reader.ts'
import type { StreamFacts } from '../../../src/queue/stream/stream.ts'
import type { RedisLink } from '../../../src/redis/link.ts'
import { makeRecord } from '../../support/journal.ts'
import { ManualTimers } from '../../support/timers.ts'

const MINUTE = 30_000_000
const CREATED = '2026-11-20T00:00:00Z'

afterEach(() => void vi.restoreAllMocks())

test('a message of a spool counts, and is not called a doubt that was not settled', async () => {
  const message = (sequence: number, isSpooled: boolean): CostMessage => {
    const text = `${MINUTE - 10} ${MINUTE - 1000} demo 3`
    return { sequence, timeUs: MINUTE * 60_000_000, id: `id${sequence}`, text, isSpooled }
  }
  const messages = [message(1, true), message(2, false), message(3, true)]
  const reader = { read: () => Promise.resolve({ messages, isEnd: true }), close: () => {} }
  vi.spyOn(CostReader, 'open').mockResolvedValue(reader as unknown as CostReader)
  const saved = { v: 1, created: CREATED, sequence: 0, timeUs: 0, minute: MINUTE, from: 1, apps: {} }
  const counted: number[] = []
  let late = 0
  const audit = await PartitionAudit.open(
    {
      partition: 1,
      connection: {} as NatsConnection,
      bucket: { read: () => Promise.resolve({ saved, revision: 1 }) } as unknown as CountsBucket,
      redis: { call: () => Promise.resolve('away') } as unknown as RedisLink,
      timers: new ManualTimers(),
      onBadMessage: (sequence) => expect.unreachable(`${sequence}`),
      onFutureEvents: () => {},
      onTakenBack: () => {},
      onLateMessage: () => void late++,
      askLimits: (appIds) => {
        counted.push(appIds.length)
        return Promise.resolve(appIds.map(() => null))
      },
      onAlert: () => {},
      onRecovered: () => {},
    },
    { createdAt: CREATED, firstSequence: 1, lastSequence: 3 } as StreamFacts,
  )
  await audit.round({ closable: MINUTE, passed: MINUTE, latest: MINUTE + 1, running: MINUTE + 1, nowMs: 0 })
  expect([late, counted]).toEqual([1, [1]])
})

/** 2027-01-16T00:00Z, before which the app has used 60 of the day's 100 events. */
const MIDNIGHT = 20_834 * 1440
const used: SavedTotals = {
  v: 1,
  created: CREATED,
  sequence: 0,
  timeUs: 0,
  minute: MIDNIGHT,
  from: 1,
  apps: { demo: [MIDNIGHT - 10, MIDNIGHT - 10, [], 20_833, [60]] },
}

/** An auditor that begins with `saved`; `round` is one at a time. */
async function alerting(saved: SavedTotals, bucket: Partial<CountsBucket>, onAlert: (alert: Alert) => void) {
  const reader = { read: () => Promise.resolve({ messages: [], isEnd: true }), close: () => {} }
  vi.spyOn(CostReader, 'open').mockResolvedValue(reader as unknown as CostReader)
  const timers = new ManualTimers()
  const limits = { alertSteps: [50], eventsPerDay: 100, eventsPerMonth: 1_000_000, billingAnchorMs: null }
  const none = (): void => {}
  const audit = await PartitionAudit.open(
    {
      partition: 0,
      connection: {} as NatsConnection,
      bucket: {
        read: () => Promise.resolve({ saved, revision: 1 }),
        forgetAlerts: () => Promise.resolve(),
        ...bucket,
      } as unknown as CountsBucket,
      redis: { call: () => Promise.resolve('away') } as unknown as RedisLink,
      timers,
      onBadMessage: none,
      onFutureEvents: none,
      onTakenBack: none,
      onLateMessage: none,
      askLimits: (appIds) => Promise.resolve(appIds.map(() => limits)),
      onAlert,
      onRecovered: none,
    },
    { createdAt: CREATED, firstSequence: 1, lastSequence: 0 } as StreamFacts,
  )
  return async (nowMs: number): Promise<void> => {
    await timers.pass(15_000)
    const running = Math.floor(nowMs / 60_000)
    await audit.round({ closable: MIDNIGHT, passed: MIDNIGHT, latest: MIDNIGHT + 100, running, nowMs })
  }
}

test('an alert, and its end when its day turns, are told once', async () => {
  const told: string[] = []
  const asked: number[] = []
  const bucket = {
    addAlerts: () => Promise.resolve(),
    write: () => Promise.resolve(2),
    forgetAlerts: (nowMs: number) => Promise.resolve(void asked.push(nowMs)),
  }
  const round = await alerting(used, bucket, ({ state, percent }) => told.push(`${state} ${percent}`))
  for (let seconds = -30; seconds < 20 * 60; seconds += 15) await round((MIDNIGHT * 60 + seconds) * 1000)
  expect(told).toEqual(['raised 50', 'cleared 50'])
  // Also where nothing was decided.
  expect([asked.length, asked[0]]).toEqual([82, (MIDNIGHT * 60 - 30) * 1000])
})

test('alerts are saved and told before old ones are forgotten, and where that fails the round stands', async () => {
  const steps: string[] = []
  const bucket = {
    addAlerts: () => Promise.resolve(),
    write: () => Promise.resolve(steps.push('write')),
    forgetAlerts: () => {
      steps.push('forget')
      return Promise.reject(new Error('timeout'))
    },
  }
  const round = await alerting(used, bucket, ({ state, percent }) => steps.push(`${state} ${percent}`))
  await round((MIDNIGHT * 60 - 30) * 1000)
  expect(steps).toEqual(['write', 'raised 50', 'forget'])
})

test('an alert that could not be stored is not saved as told, and the next auditor decides the same one', async () => {
  const [asked, stored, told]: string[][] = [[], [], []]
  let saved = used
  let isAway = true
  const bucket: Partial<CountsBucket> = {
    addAlerts: (_appId, alerts) => {
      for (const { id } of alerts) (isAway ? asked : stored).push(id)
      return isAway ? Promise.reject(new Error('timeout')) : Promise.resolve()
    },
    write: (_partition, written) => {
      saved = written
      return Promise.resolve(2)
    },
  }
  const audit = () => alerting(saved, bucket, ({ id }) => told.push(id))
  await expect((await audit())((MIDNIGHT * 60 - 30) * 1000)).rejects.toThrow('timeout')
  expect([asked.length, told]).toEqual([1, []])
  isAway = false
  await (await audit())((MIDNIGHT * 60 - 10) * 1000)
  expect([stored, told]).toEqual([asked, asked])
  await (await audit())((MIDNIGHT * 60 - 5) * 1000)
  expect([stored, told]).toEqual([asked, asked])
})

test('the header of a message says that it was in a spool, and its costs as before', () => {
  const headers = (isSpooled: boolean): string => {
    const record = { ...makeRecord({ events: 2 }), ...(isSpooled ? ({ isSpooled } as const) : {}) }
    const first: Entry = { record, onAck: () => {}, deadlineMs: 0, number: 1, burntIds: 0, next: null }
    return headersOf('an-id', { first, records: 1, bytes: record.line.length })
  }
  const costs = 'NATS/1.0\r\nNats-Msg-Id: an-id\r\nSluice-Cost: 30000000 30000000 demo 2\r\n'
  expect(headers(false)).toBe(`${costs}\r\n`)
  expect(headers(true)).toBe(`${costs}Sluice-Spool: 1\r\n\r\n`)
})
