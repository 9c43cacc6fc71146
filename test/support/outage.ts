// Two nodes under one fault after the other, for a whole file of tests: each test mends what it broke.

import { afterEach, beforeAll, expect } from 'vitest'
import { get, post, single } from './client.ts'
import { becomesReady, type Cluster, expectCovered, logOf, startCluster } from './cluster.ts'
import type { StoredRecord } from './journal-files.ts'
import type { RunningLoad } from './load.ts'
import { appRecord, eventually, type Service } from './service.ts'
import { readRecords } from './stream.ts'

export interface Fault {
  fault: () => unknown
  heal: () => unknown
}

export class Outage {
  cluster!: Cluster
  first!: Service
  second!: Service
  load: RunningLoad | null = null
  #heal: (() => unknown) | null = null

  constructor() {
    beforeAll(async () => {
      this.cluster = await startCluster({ nodes: 2, apps: [] })
      ;[this.first, this.second] = this.cluster.nodes as [Service, Service]
    }, 60_000)
    afterEach(() => this.mend())
  }

  get nodes(): readonly Service[] {
    return [this.first, this.second]
  }

  async begin({ fault, heal }: Fault): Promise<void> {
    this.#heal = heal
    await fault()
  }

  async heal(): Promise<void> {
    await this.#heal?.()
    this.#heal = null
  }

  async mend(): Promise<void> {
    await this.heal()
    await this.load?.stop()
    this.load = null
  }

  async storedOf(appId: string): Promise<StoredRecord[]> {
    return (await readRecords(this.cluster.nats.url)).filter(({ app_id }) => app_id === appId)
  }
}

export const eventsIn = (records: readonly StoredRecord[]): number =>
  records.reduce((sum, { events }) => sum + events.length, 0)

export async function expectServing(node: Service, ready: 200 | 503 = 200): Promise<void> {
  expect((await get(node.adminPort, '/livez')).status).toBe(200)
  expect((await get(node.adminPort, '/readyz')).status).toBe(ready)
}

/** A node that is started under the fault is not ready, and serves once that is over, without a restart. */
export async function expectLateStart(
  outage: Outage,
  fault: Fault,
  meanwhile: (node: Service) => Promise<void>,
): Promise<void> {
  await outage.cluster.addApps([appRecord('late')])
  await outage.begin(fault)
  const node = await outage.cluster.startNode()
  await expectServing(node, 503)
  await meanwhile(node)
  await outage.heal()
  await becomesReady(node)
  await eventually('it is accepted', async () => (await post(node, single('ak_late'))).status === 202)
  await expectCovered(outage.cluster, 'ak_late', 1)
  expect((await node.stop()).code).toBe(0)
}

/**
 * From these places in the nodes' output on: a line for each change, and not for each request; none follows its like. A
 * change that was told within the last 10 s is told when these are over, with its number.
 */
export async function expectToldOnce(
  outage: Outage,
  part: 'redis' | 'nats',
  from: readonly number[],
  below: number,
): Promise<void> {
  for (const [at, node] of outage.nodes.entries()) {
    const tellings = (): string[] => logOf(node, from[at]).flatMap((line) => (line.part === part ? [line.msg] : []))
    await expect.poll(() => tellings().length, { message: tellings().join('\n') }).toBeGreaterThanOrEqual(2)
    const lines = logOf(node, from[at])
    const told = tellings()
    expect(told.length, told.join('\n')).toBeLessThan(below)
    expect(told.filter((msg, index) => msg === told[index + 1])).toEqual([])
    const errors = lines.filter(({ level }) => level === 'error' || level === 'fatal')
    expect(errors.map(({ msg }) => msg)).toEqual([])
  }
}
