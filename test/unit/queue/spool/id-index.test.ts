// The index of ids keeps only those that are asked for where a partition has too many.

import type { NatsConnection } from '@nats-io/transport-node'
import { afterEach, expect, test, vi } from 'vitest'
import { systemTimers } from '../../../../src/lib/timers.ts'
import { CostReader, type From } from '../../../../src/queue/stream/read/cost-reader.ts'
import { IdIndex } from '../../../../src/queue/stream/read/id-index.ts'

const MAX_IDS = 200_000

afterEach(() => void vi.restoreAllMocks())

test('after a reading that dropped ids and failed, the next one begins anew', async () => {
  const message = (at: number) => ({ id: `id${at}`, sequence: at + 1, timeUs: 1, text: null, isSpooled: false })
  const all = Array.from({ length: MAX_IDS }, (_, at) => message(at))
  const readings = [
    [() => Promise.resolve({ messages: all, isEnd: true })],
    [
      () => Promise.resolve({ messages: [message(MAX_IDS)], isEnd: false }),
      () => Promise.reject(new Error('not in time')),
    ],
    [() => Promise.resolve({ messages: [], isEnd: true })],
  ]
  const begun: From[] = []
  vi.spyOn(CostReader, 'open').mockImplementation((_connection, _partition, from) => {
    begun.push(from)
    const answers = readings.shift()!
    const reader = {
      read: () => answers.shift()!(),
      askEnd: () => Promise.resolve(null),
      hasPassed: () => true,
      close: () => {},
    }
    return Promise.resolve(reader as unknown as CostReader)
  })
  const index = new IdIndex(0, systemTimers)
  const connection = {} as NatsConnection
  await index.read(connection, new Set(['id7']), 100_000)
  await expect(index.read(connection, new Set(['other']), 100_000)).rejects.toThrow('not in time')
  await index.read(connection, new Set(['id7']), 100_000)
  expect(begun).toEqual([{ timeMs: 40_000 }, { sequence: MAX_IDS + 1 }, { timeMs: 40_000 }])
})
