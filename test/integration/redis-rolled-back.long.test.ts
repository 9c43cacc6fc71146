// Nodes over a real Redis that goes back to an older state, or is emptied: they notice, and give nothing out again.

import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { App } from '../../src/apps/app.ts'
import { partitionOf } from '../../src/contract/partition.ts'
import { MINUTE_MS } from '../../src/lib/spans.ts'
import type { Admitted } from '../../src/limits/admission.ts'
import { cycleMinutesAt } from '../../src/limits/cycle-minutes.ts'
import { NODES_KEY } from '../../src/limits/shared/nodes.ts'
import { beatKey, countsKey, fenceKey } from '../../src/limits/shared/take.ts'
import { connectTo, type LimitNode, limitNode } from '../support/limits.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { eventually } from '../support/service.ts'
import { usageOf } from '../support/usage.ts'
import { anApp } from '../unit/apps/apps.ts'

const NOON_MS = Date.UTC(2026, 10, 20, 12)
const NOON = NOON_MS / MINUTE_MS
const LIMIT = 1000
/** Longer than counts rest after a loss. */
const REST_MS = 2000
const REPLACE = readFileSync(new URL('../../src/audit/replace.lua', import.meta.url), 'utf8')

const app: App = anApp({ appId: 'busy', eventsPerMinute: 1_000_000, eventsPerDay: null, eventsPerMonth: LIMIT })
const PARTITION = partitionOf(app.appId, 16)
const BEAT = beatKey(PARTITION)

let server: RedisServer
let client: Redis
let nowMs = NOON_MS
let nodes: LimitNode[] = []
beforeAll(async () => {
  server = await startRedis(['--appendonly', 'no', '--enable-debug-command', 'yes'])
  client = connectTo(server.url)
})
beforeEach(async () => {
  await client.flushall()
  nowMs = NOON_MS + 5000
  nodes = ['one', 'two', 'three'].map((nodeId) => limitNode(client, nodeId, () => nowMs))
  await eventually('all three beat', async () => (await client.zcard(NODES_KEY)) === 3)
  // Now each knows that they are three.
  await untilSeen()
})
afterEach(async () => {
  for (const { admission } of nodes) await admission.stop()
  for (const { faults } of nodes) if (faults.length > 0) throw faults[0]
})
afterAll(() => client.disconnect())

/** What the next restart without saving brings back. */
const remember = () => client.save()
const goBack = () => client.call('DEBUG', 'RELOAD', 'NOSAVE')

const ask = ({ admission }: LimitNode, events: number): Promise<Admitted> =>
  Promise.resolve(admission.admit(app, events, null, null))

/** Of so many batches of `events`, how many were accepted. */
async function acceptedOf(node: LimitNode, batches: number, events: number): Promise<number> {
  let accepted = 0
  for (let count = 0; count < batches; count++) if ((await ask(node, events)).kind === 'taken') accepted++
  return accepted
}

const used = async (): Promise<number> => (await usageOf(nodes[0].admission, app)).month.used

/** As the audit does: the events stored until `minute`, then the fence. */
async function audit(stored: number, minute: number): Promise<void> {
  const { first } = cycleMinutesAt(app, minute)
  const day = Math.floor(minute / 1440)
  const base = [`${first} ${stored} ${minute} ${day} ${stored}`, `${day}:${stored}`]
  const head = [String(minute * 60_000_000), String(minute), '1']
  const keys = [fenceKey(PARTITION), `sluice:{p${PARTITION}}:read`]
  await client.eval(REPLACE, 3, ...keys, countsKey(PARTITION, app.appId), ...head, '0', ...base)
  await client.eval(REPLACE, 2, ...keys, ...head, '1')
}

/** Until each node has raised the beat since: then each has seen what Redis has. */
async function untilSeen(): Promise<void> {
  const beat = async () => Number(((await client.get(BEAT)) ?? '0').split(' ')[0])
  const before = await beat()
  await eventually('each node has seen it', async () => (await beat()) >= before + 2 * nodes.length)
}

/** By turns, so that each node has lately seen what all have used. Returns the events accepted. */
async function takeByTurns(rounds: number, events: number): Promise<number> {
  let accepted = 0
  for (let round = 0; round < rounds; round++) for (const node of nodes) accepted += await acceptedOf(node, 1, events)
  return accepted * events
}

describe('a Redis that goes back to an older state', () => {
  it('is noticed by the next call of any node, and gives out nothing again of what nodes took', async () => {
    expect(await takeByTurns(10, 10)).toBe(300)
    await remember()
    expect(await takeByTurns(20, 10)).toBe(600)
    await untilSeen()
    await goBack()
    expect(await used()).toBe(300)
    expect(await takeByTurns(20, 10)).toBeLessThanOrEqual(LIMIT - 900)
    await eventually('every node counts again what it took', async () => (await used()) >= 900)
    await untilSeen()
    nowMs += REST_MS
    await takeByTurns(20, 10)
    expect(await used(), 'and nothing twice').toBe(LIMIT)
    for (const { notices } of nodes)
      expect([...new Set(notices)]).toEqual([expect.stringContaining('Redis has lost counts')])
  })

  it('counts an open minute again at a node that takes no more of this app', async () => {
    expect(await takeByTurns(1, 100)).toBe(300)
    await remember()
    expect(await acceptedOf(nodes[0], 6, 100)).toBe(6)
    await untilSeen()
    await goBack()
    await eventually('it is noticed by a heartbeat', async () => (await used()) === 900)
    nowMs += REST_MS
    expect(await acceptedOf(nodes[1], 5, 100)).toBe(1)
  })

  it('leaves given back what was given back after the state that it went back to', async () => {
    const [one, two] = nodes
    expect(await acceptedOf(one, 1, 100)).toBe(1)
    const admitted = await ask(one, 500)
    if (admitted.kind !== 'taken') throw new Error(admitted.kind)
    await remember()
    one.admission.end(app, admitted.charge, null, 'refused', 500)
    await eventually('it is given back', async () => (await used()) === 100)
    expect(await acceptedOf(one, 1, 50)).toBe(1)
    await untilSeen()
    await goBack()
    expect(await used()).toBe(600)
    await eventually('it is given back again', async () => (await used()) === 150)
    nowMs += REST_MS
    expect(await acceptedOf(two, 1, 850)).toBe(1)
  })

  it('is noticed by a take, where no heartbeat was lost', async () => {
    expect(await takeByTurns(1, 100)).toBe(300)
    await untilSeen()
    const beat = (await client.get(BEAT)) as string
    await remember()
    expect(await takeByTurns(2, 100)).toBe(600)
    await goBack()
    await client.set(BEAT, beat.replace(/^\d+/, '1000000'))
    expect(await takeByTurns(1, 1)).toBeLessThanOrEqual(3)
    await eventually('every node counts again what it took', async () => (await used()) >= 900)
  })

  it('leaves each node its share until the audit has written the closed minute again', async () => {
    await audit(100, NOON - 2)
    await remember()
    await audit(900, NOON - 1)
    expect(await takeByTurns(1, 1)).toBe(3)
    await goBack()
    expect(await takeByTurns(30, 1)).toBeLessThanOrEqual(LIMIT - 903)
    nowMs += 4000
    expect(await takeByTurns(30, 1), 'however long it takes').toBeLessThanOrEqual(7)
    expect(nodes.map(({ admission }) => admission.hasForgotten)).toEqual([true, true, true])
    await audit(900, NOON - 1)
    await untilSeen()
    expect(nodes.map(({ admission }) => admission.hasForgotten)).toEqual([false, false, false])
    expect(await used()).toBeLessThanOrEqual(LIMIT)
    expect(await used()).toBeGreaterThanOrEqual(990)
  })

  it('is a loss for a node that starts after it, too', async () => {
    await audit(100, NOON - 2)
    await remember()
    await audit(900, NOON - 1)
    expect(await takeByTurns(1, 1)).toBe(3)
    await goBack()
    expect(await acceptedOf(nodes[0], 1, 1)).toBe(1)
    nowMs += 2000
    const fresh = limitNode(client, 'fresh', () => nowMs)
    nodes.push(fresh)
    expect(await acceptedOf(fresh, 1, 500), 'a whole limit, divided by the nodes').toBe(0)
  })
})

describe('a Redis that was emptied', () => {
  it('leaves each node its share until the audit has written the closed minute again', async () => {
    await audit(900, NOON - 1)
    expect(await takeByTurns(1, 1)).toBe(3)
    await client.flushall()
    expect(await takeByTurns(10, 1)).toBe(30)
    // The first heartbeats find a list of fewer nodes.
    await untilSeen()
    expect(await takeByTurns(50, 1)).toBeLessThanOrEqual(LIMIT - 903 - 30)
    await audit(900, NOON - 1)
    nowMs += 2000
    expect(await used()).toBeGreaterThanOrEqual(990)
    for (const { notices } of nodes) expect(new Set(notices).size).toBe(1)
  })
})

describe('a list of nodes that was lost', () => {
  it('leaves a node no more than its share, though it is the first on the new one', async () => {
    await audit(900, NOON - 1)
    expect(await takeByTurns(1, 1)).toBe(3)
    const [one, ...others] = nodes
    for (const { link } of others) link.isUp = false
    await client.flushall()
    await eventually('it is alone on the list', async () => (await client.zcard(NODES_KEY)) === 1)
    await eventually('and knows it', async () => (await client.exists(BEAT)) === 1)
    expect(await acceptedOf(one, 200, 1)).toBeLessThanOrEqual(Math.ceil((LIMIT - 900) / 3))
  })
})

describe('a Redis that has lost nothing', () => {
  const isUsed = async (): Promise<void> => {
    for (const { admission } of nodes) {
      const { kind } = await Promise.resolve(admission.admit(app, 400, null, null))
      expect(kind).toBe(nodes[0].admission === admission || nodes[1].admission === admission ? 'taken' : 'over limit')
    }
    for (const { notices } of nodes) expect(notices).toEqual([])
  }

  it('is used at once after a reconnection', async () => {
    await audit(100, NOON - 1)
    expect(await takeByTurns(1, 1)).toBe(3)
    await untilSeen()
    for (const { link } of nodes) link.set(false)
    for (const { link } of nodes) link.set(true)
    await isUsed()
  })

  it('is used at once after an audit took back a fence that was far ahead of the clock', async () => {
    await client.set(fenceKey(PARTITION), `1 ${NOON + 118}`)
    await untilSeen()
    await client.set(fenceKey(PARTITION), `1 ${NOON - 1}`)
    await isUsed()
    nowMs += 117 * MINUTE_MS
    await client.set(fenceKey(PARTITION), `1 ${NOON + 116}`)
    for (const node of nodes) expect(await acceptedOf(node, 1, 1), 'when the clock has come there').toBe(1)
  })
})
