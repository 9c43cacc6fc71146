import { expect, test } from 'vitest'
import { SpooledEvents } from '../../../../src/limits/shared/spooled-events.ts'
import type { RedisClient, RedisLink } from '../../../../src/redis/link.ts'
import { ManualTimers } from '../../../support/timers.ts'

test('what Redis refuses to write is written at the next turn', async () => {
  let calls = 0
  const client = {
    evalsha: async () => {
      calls += 1
      if (calls === 1) throw new Error('OOM command not allowed when used memory > maxmemory')
      return 600_000
    },
  } as unknown as RedisClient
  const link: RedisLink = {
    isUp: true,
    isCluster: false,
    call: async (command, read) => read(await command(client)),
    onChange: () => {},
    stop: async () => {},
  }
  const timers = new ManualTimers()
  const faults: unknown[] = []
  const onFault = (error: unknown): void => void faults.push(error)
  const spooled = new SpooledEvents({ link, nodeId: 'n', spoolId: 's', partitions: 16, timers, onFault })
  spooled.start()
  spooled.add('shop', { takenAtMs: 600_000, minute: 10, cycleMinute: 0, events: 3 })
  await timers.pass(1000)
  expect(faults).toEqual([expect.objectContaining({ message: expect.stringContaining('OOM') })])
  await timers.pass(5000)
  expect(calls).toBe(2)
})
