// What the stream has of a spool's batches, asked of an index of ids that is read for all of them at once.

import { randomUUID } from 'node:crypto'
import type { NatsConnection } from '@nats-io/transport-node'
import { afterEach, expect, test, vi } from 'vitest'
import { Settler } from '../../../../src/queue/spool/settler.ts'
import type { SpooledRecord } from '../../../../src/queue/spool/spool-records.ts'
import { IdIndex } from '../../../../src/queue/stream/read/id-index.ts'
import { ManualTimers } from '../../../support/timers.ts'

afterEach(() => void vi.restoreAllMocks())

const MINUTE_MS = 60_000

function recordFrom(receivedAtMs: number): SpooledRecord {
  const head = { batchId: randomUUID(), appId: 'demo', receivedAtMs }
  return { head, messageId: null } as unknown as SpooledRecord
}

test('a partition is read once for any number of batches, and an answer holds for less than half of the duplicate window', async () => {
  const timers = new ManualTimers()
  timers.block(60 * MINUTE_MS)
  const read = vi.spyOn(IdIndex.prototype, 'read').mockImplementation(() => {
    timers.block(MINUTE_MS)
    return Promise.resolve()
  })
  vi.spyOn(IdIndex.prototype, 'find').mockResolvedValue([])
  const startMs = timers.nowMs()
  const [old, young] = [Array.from({ length: 100 }, (_, at) => recordFrom(at)), recordFrom(startMs - MINUTE_MS)]
  const settled = await new Settler(1, timers).settle([...old, young], {} as NatsConnection)
  expect(read).toHaveBeenCalledTimes(1)
  expect(read.mock.calls[0][1].size).toBe(100)
  expect(new Set(settled.map(({ sequence }) => sequence))).toEqual(new Set([null]))
  // Of what is old since the reading, of what is young since it came.
  expect(settled.map(({ untilMs }) => untilMs - startMs).filter((ms) => ms !== 350_000)).toEqual([230_000])
})
