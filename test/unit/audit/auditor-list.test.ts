// Which node audits which partition, by the lists in Redis.

import { describe, expect, test } from 'vitest'
import { AuditorList } from '../../../src/audit/auditor-list.ts'
import { Clocks } from '../../../src/audit/clocks.ts'
import { FOREIGN_KEY } from '../../../src/installation/owner.ts'
import { systemTimers } from '../../../src/lib/timers.ts'
import { NODES_KEY } from '../../../src/limits/shared/nodes.ts'
import type { RedisClient, RedisLink } from '../../../src/redis/link.ts'

const PARTITIONS = 64

/** By partition, as a node sees it where these nodes are listed. */
async function auditors(
  nodes: readonly string[],
  skewed: readonly string[] = [],
  foreign: readonly string[] = [],
): Promise<(string | undefined)[]> {
  const client = {
    time: async () => ['1800000000', '0'],
    zrange: async (key: string) => (key === NODES_KEY ? nodes : key === FOREIGN_KEY ? foreign : skewed),
  } as unknown as RedisClient
  const redis: RedisLink = {
    isUp: true,
    isCluster: false,
    call: async (command, read) => read(await command(client)),
    onChange: () => {},
    stop: async () => {},
  }
  const list = new AuditorList({ redis, nodeId: 'a', partitions: PARTITIONS, clocks: new Clocks(systemTimers) })
  await list.read()
  return Array.from({ length: PARTITIONS }, (_, partition) => list.auditorOf(partition))
}

describe('the partitions', () => {
  test('are all audited by a node that is alone', async () => {
    expect(new Set(await auditors(['a']))).toEqual(new Set(['a']))
  })

  test('have the same auditor in whatever order the nodes are listed, and every node has some', async () => {
    const found = await auditors(['a', 'b', 'c'])
    expect(await auditors(['c', 'a', 'b'])).toEqual(found)
    expect(new Set(found)).toEqual(new Set(['a', 'b', 'c']))
  })

  test('keep their auditor where another node leaves', async () => {
    const before = await auditors(['a', 'b', 'c'])
    const after = await auditors(['a', 'c'])
    for (const [partition, auditor] of before.entries()) if (auditor !== 'b') expect(after[partition]).toBe(auditor)
    expect(after).not.toContain('b')
  })

  test('are not audited by a node whose clock is wrong', async () => {
    expect(await auditors(['a', 'b', 'c'], ['b'])).toEqual(await auditors(['a', 'c']))
  })

  test('are not audited by a node of another installation', async () => {
    expect(await auditors(['a', 'b', 'c'], [], ['b'])).toEqual(await auditors(['a', 'c']))
  })
})
