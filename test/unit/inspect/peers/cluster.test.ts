import { describe, expect, it } from 'vitest'
import type { EventFilter } from '../../../../src/contract/admin/peers.ts'
import type { OwnGroup, Refusal } from '../../../../src/contract/admin/refusals.ts'
import { AcceptedCounts } from '../../../../src/inspect/activity/accepted-counts.ts'
import type { Inquiries } from '../../../../src/inspect/inquiries.ts'
import { EventTaps } from '../../../../src/inspect/live/event-tap.ts'
import { LiveAlerts } from '../../../../src/inspect/live/live-alerts.ts'
import type { LocalNode } from '../../../../src/inspect/now/local-node.ts'
import { Cluster, type Transport } from '../../../../src/inspect/peers/cluster.ts'
import {
  MAX_PIECE_BYTES,
  packed,
  splitAnswer,
  unpack,
  wholeAnswer,
} from '../../../../src/inspect/peers/peer-messages.ts'
import { Leases, RemoteWatches } from '../../../../src/inspect/peers/remote-watch.ts'
import { lastHourOf, OwnAnswers } from '../../../../src/inspect/questions.ts'
import { LiveRefusals } from '../../../../src/inspect/refusals/live-refusals.ts'
import { Refusals } from '../../../../src/inspect/refusals/refusals.ts'
import { systemTimers } from '../../../../src/lib/timers.ts'
import type { GatherOptions, OnPeerMessage } from '../../../../src/nats/peers.ts'
import { storedBytes } from '../../../support/stored-bytes.ts'
import { ManualTimers } from '../../../support/timers.ts'
import { anAlert, aRefusal, report, storedBatch } from '../reports.ts'

const NOW_MS = Date.parse('2026-11-22T10:00:00.000Z')

/** NATS in memory: messages arrive at once. */
class Bus implements Transport {
  isUp = true
  readonly timers = new ManualTimers()
  largestBytes = 0
  readonly #handlers = new Map<string, { onMessage: OnPeerMessage; queue: string | null }[]>()
  #inboxes = 0

  on(subject: string, onMessage: OnPeerMessage, queue: string | null = null): () => void {
    const entry = { onMessage, queue }
    this.#handlers.set(subject, [...(this.#handlers.get(subject) ?? []), entry])
    return () => {
      const left = (this.#handlers.get(subject) ?? []).filter((one) => one !== entry)
      this.#handlers.set(subject, left)
    }
  }

  gather(subject: string, data: Uint8Array, options: GatherOptions): Promise<Uint8Array[] | null> {
    const { timeoutMs, isWhole, maxReplies } = options
    if (!this.isUp) return Promise.resolve(null)
    return new Promise((resolve) => {
      const replies: Uint8Array[] = []
      this.#inboxes += 1
      const inbox = `sluice.console.reply.${this.#inboxes}`
      this.on(inbox, (message) => {
        replies.push(message.data)
        if (isWhole(replies) || replies.length >= maxReplies) resolve(replies)
      })
      this.timers.setTimeout(() => resolve(replies), timeoutMs)
      this.publish(subject, data, inbox)
    })
  }

  publish(subject: string, data: Uint8Array, reply = ''): void {
    if (!this.isUp) return
    this.largestBytes = Math.max(this.largestBytes, data.length)
    const handlers = this.#handlers.get(subject) ?? []
    const chosen = handlers.some(({ queue }) => queue !== null) ? handlers.slice(0, 1) : handlers
    for (const { onMessage } of chosen) onMessage({ data, reply })
  }
}

function ownNamed(node: string, answers: () => object = () => report(node)): OwnAnswers {
  const answer = async () => answers()
  return { name: node, answer } as unknown as OwnAnswers
}

function join(
  bus: Bus,
  id: string,
  own: OwnAnswers | null = ownNamed(id),
  ownInquiries: Inquiries | null = null,
): Cluster {
  const faults = (error: unknown) => {
    throw error
  }
  return new Cluster({ peers: bus, own, ownInquiries, id, timers: bus.timers, onFault: faults })
}

async function namesSeenBy(bus: Bus, cluster: Cluster) {
  const asking = cluster.ask('now', { range: null })
  await bus.timers.pass(500)
  const { pieces, silent, problem } = await asking
  return { names: pieces.map(({ node }) => node), silent: silent.map(({ report }) => report.node), problem }
}

describe('asking all', () => {
  it('gathers each process once, the own one too', async () => {
    const bus = new Bus()
    const [one] = ['a', 'b', 'c'].map((id) => join(bus, id))
    expect(await namesSeenBy(bus, one)).toEqual({ names: ['a', 'b', 'c'], silent: [], problem: null })
  })

  it('of a process that takes no events gathers the others', async () => {
    const bus = new Bus()
    const supervisor = join(bus, 's', null)
    join(bus, 'a')
    expect((await namesSeenBy(bus, supervisor)).names).toEqual(['a'])
  })

  it('says that others cannot be asked while NATS is away, and shows this process', async () => {
    const bus = new Bus()
    const one = join(bus, 'a')
    bus.isUp = false
    expect(await namesSeenBy(bus, one)).toEqual({
      names: ['a'],
      silent: [],
      problem: 'other nodes cannot be asked: NATS is away',
    })
  })

  it('shows for 15 minutes as silent who was there and does not answer, and not who said that it ends', async () => {
    const bus = new Bus()
    const one = join(bus, 'a')
    const [killed, ended] = [join(bus, 'b'), join(bus, 'c')]
    for (const other of [killed, ended]) other.announce()
    await bus.timers.pass(0)
    ended.announceEnd()
    for (const other of [killed, ended]) other.stop()
    expect(await namesSeenBy(bus, one)).toMatchObject({ names: ['a'], silent: ['b'] })
    await bus.timers.pass(900_000)
    expect(await namesSeenBy(bus, one)).toMatchObject({ names: ['a'], silent: [] })
  })

  it('waits for nobody once nobody answered, until another one is heard or NATS was away', async () => {
    const bus = new Bus()
    const one = join(bus, 'a')
    const waitedMs = async (names: readonly string[]): Promise<number> => {
      const startMs = bus.timers.monotonicMs()
      let endMs = Number.POSITIVE_INFINITY
      const asking = one.ask('now', { range: null }).finally(() => (endMs = bus.timers.monotonicMs()))
      await bus.timers.pass(1000)
      expect((await asking).pieces.map(({ node }) => node)).toEqual(names)
      return endMs - startMs
    }
    expect(await waitedMs(['a'])).toBe(500)
    expect([await waitedMs(['a']), await waitedMs(['a'])]).toEqual([0, 0])
    bus.isUp = false
    expect((await one.ask('now', { range: null })).problem).toBe('other nodes cannot be asked: NATS is away')
    bus.isUp = true
    one.up()
    expect([await waitedMs(['a']), await waitedMs(['a'])]).toEqual([500, 0])
    const other = join(bus, 'b')
    other.announce()
    await bus.timers.pass(0)
    expect(await waitedMs(['a', 'b'])).toBe(0)
    // Killed: it is waited for while it may only be slow, and then once more.
    other.stop()
    expect([await waitedMs(['a']), await waitedMs(['a'])]).toEqual([500, 500])
    await bus.timers.pass(60_000)
    expect([await waitedMs(['a']), await waitedMs(['a'])]).toEqual([500, 0])
  })

  it('is not alone where another one is heard while nobody answers', async () => {
    const bus = new Bus()
    const one = join(bus, 'a')
    const asking = one.ask('now', { range: null })
    await bus.timers.pass(400)
    join(bus, 'b').announce()
    await bus.timers.pass(100)
    expect((await asking).pieces).toHaveLength(1)
    expect((await namesSeenBy(bus, one)).names).toEqual(['a', 'b'])
  })

  it('says that nodes of another version are not shown, until a minute after the last one', async () => {
    const bus = new Bus()
    const one = join(bus, 'a')
    const told = { from: 'x', report: report('b', { version: '0.3.0' }) }
    bus.publish('sluice.console.here', Buffer.from(`${JSON.stringify({ format: 1, ...told })}\n`))
    const problem = 'nodes of another version are there, and are not shown'
    expect(await namesSeenBy(bus, one)).toEqual({ names: ['a'], silent: [], problem })
    await bus.timers.pass(60_000)
    expect(await namesSeenBy(bus, one)).toEqual({ names: ['a'], silent: [], problem: null })
  })

  it('answers with no more than one message holds', async () => {
    const bus = new Bus()
    const refusals = Array.from({ length: 1000 }, (_, at): Refusal => {
      const request_id = `r${at}`
      const known = {
        app_id: null,
        code: 'invalid_json',
        reason: null,
        origin: null,
        path: null,
        sdk_version: null,
        node: 'b',
      }
      return { time: '2026-11-22T10:00:00.000Z', request_id, message: 'x'.repeat(200), ...known }
    })
    const one = join(bus, 'a')
    join(
      bus,
      'b',
      ownNamed('b', () => ({ refusals, groups: [], minute: 1, since_ms: 0 })),
    )
    const asking = one.ask('refusals', { app: null, code: null, limit: 1000 })
    await bus.timers.pass(500)
    const { pieces } = await asking
    expect(pieces[1].refusals.length).toBeGreaterThan(500)
    expect(pieces[1].refusals).toEqual(refusals.slice(0, pieces[1].refusals.length))
    expect(bus.largestBytes).toBeLessThanOrEqual(MAX_PIECE_BYTES)
  })

  it('answers for the last hour of as many apps as one message holds, and says that others are left out', async () => {
    const bus = new Bus()
    const accepted = new AcceptedCounts()
    const refusals = new Refusals()
    const bytes = storedBytes(() => NOW_MS)
    const codes = [
      'monthly_limit_exceeded',
      'daily_limit_exceeded',
      'rate_limit_exceeded',
      'validation_failed',
    ] as const
    const ids = Array.from({ length: 1000 }, (_, at) => `app-${at}-`.padEnd(64, 'x'))
    for (const [at, appId] of ids.entries()) {
      accepted.add(appId, 1_000_000, NOW_MS)
      bytes.store({ appId, bytesPerMinute: 1 }, 10_000_000_000 + at)
      if (at >= 200) continue
      for (const code of codes) refusals.add(aRefusal({ time_ms: NOW_MS, app_id: appId, code }))
    }
    const timers = { ...systemTimers, nowMs: () => NOW_MS }
    const own = new OwnAnswers({ node: report('b') as unknown as LocalNode, refusals, accepted, bytes, timers })
    const whole = await own.answer('last hour', { app: null })
    expect(packed({ piece: whole }).length).toBeGreaterThan(MAX_PIECE_BYTES)
    const one = join(bus, 'a', null)
    join(bus, 'b', own)
    const asking = one.ask('last hour', { app: null })
    await expect.poll(() => bus.largestBytes).toBeGreaterThan(100_000)
    await bus.timers.pass(500)
    const { pieces } = await asking
    expect(bus.largestBytes).toBeLessThanOrEqual(MAX_PIECE_BYTES)
    expect(pieces).toHaveLength(1)
    const [told] = pieces
    expect([told.has_all, told.bytes_has_all]).toEqual([false, false])
    const known = ids.filter((appId) => Object.hasOwn(told.accepted, appId))
    expect(known.length).toBeGreaterThan(500)
    for (const appId of ids) {
      const seen = lastHourOf(appId, [told])
      expect(seen).toEqual(known.includes(appId) ? lastHourOf(appId, [whole]) : null)
    }
    const stored = Object.keys(told.bytes ?? {})
    expect(stored.length).toBeGreaterThan(500)
    expect(stored).toEqual(ids.toReversed().slice(0, stored.length))
  })

  it.each([
    ['with a reason that this version does not know', { reason: 'moon_full' }, 2],
    ['with a reason that is none', { reason: 5 }, 1],
    ['with a reason that is no word', { reason: 'x'.repeat(41) }, 1],
  ])('takes the refusals of a node %s', async (_what, more, pieces) => {
    const bus = new Bus()
    const one = join(bus, 'a')
    const known = { app_id: 'shop', code: 'service_overloaded', origin: null, path: null, sdk_version: null, ...more }
    const refusals = [
      { time: '2026-11-22T10:00:00.000Z', request_id: 'r', message: 'm', node: 'b', ...known } as Refusal,
    ]
    const groups = [
      { ...known, message: 'm', count: 1, first_ms: 1, last_ms: 1, per_minute: Array<number>(60).fill(0) },
    ] as unknown as readonly OwnGroup[]
    join(
      bus,
      'b',
      ownNamed('b', () => ({ refusals, groups, minute: 1, since_ms: 0 })),
    )
    const asking = one.ask('refusals', { app: null, code: null, limit: 10 })
    await bus.timers.pass(500)
    expect((await asking).pieces).toHaveLength(pieces)
  })

  it('is not disturbed by messages that it cannot read', async () => {
    const bus = new Bus()
    const one = join(bus, 'a')
    for (const text of ['', '{', 'null\n', '{"from":"x"}\n', '{"format":2,"from":"x","report":{}}\n']) {
      for (const subject of ['sluice.console.here', 'sluice.console.ask', 'sluice.console.one']) {
        bus.publish(subject, Buffer.from(text), 'sluice.console.reply.nobody')
      }
    }
    expect((await namesSeenBy(bus, one)).names).toEqual(['a'])
  })
})

describe('asking one', () => {
  it('brings an answer of several megabytes, in parts', async () => {
    const bus = new Bus()
    const json = JSON.stringify('ä'.repeat(1_000_000))
    const asked: unknown[] = []
    const inquiries: Inquiries = {
      answer: async ({ name, query, body }) => {
        asked.push([name, query, body.toString()])
        return { status: 200, json }
      },
    }
    join(bus, 'a', ownNamed('a'), inquiries)
    join(bus, 'b', ownNamed('b'), inquiries)
    const supervisor = join(bus, 's', null)
    const answer = await supervisor.answer({
      name: 'explain',
      query: 'app_key=k',
      body: Buffer.from('a body'),
      scope: 'all',
    })
    expect(answer).toEqual({ status: 200, json })
    expect(asked).toEqual([['explain', 'app_key=k', 'a body']])
  })

  it('says that no node answers', async () => {
    const bus = new Bus()
    const asking = join(bus, 's', null).answer({ name: 'apps', query: '', body: Buffer.alloc(0), scope: 'all' })
    await bus.timers.pass(15_000)
    expect((await asking).status).toBe(503)
  })

  it('takes parts in any order, and waits for all', () => {
    const parts = splitAnswer({ status: 200, json: 'x'.repeat(600_000) })
    expect(parts).toHaveLength(3)
    expect(wholeAnswer(parts.slice(1))).toBe(null)
    expect(wholeAnswer(parts.toReversed())?.json).toHaveLength(600_000)
    expect(unpack(Buffer.from('{"format":2}'), (head): head is object => typeof head === 'object')).toBe(null)
  })
})

describe('live streams of others', () => {
  const FILTER: EventFilter = { app: null, type: null, name: null, user: null }
  const line = Buffer.from(
    '{"v":1,"batch_id":"0b9e3a52-6f0c-7d7e-9a55-2f8c1d3e4b6a","app_id":"a","received_at":"2026-11-22T10:00:00.000Z","events":[{"type":"track","name":"n"}]}\n',
  )

  function stage() {
    const bus = new Bus()
    const { timers } = bus
    const options = { peers: bus, timers }
    const taps = new EventTaps({ node: 'n2', timers, onFault: () => {} })
    const refused = new Refusals()
    const refusals = new LiveRefusals(refused, { node: 'n2', timers })
    const alerts = new LiveAlerts(timers)
    const leases = new Leases({ ...options, id: 'b2', events: taps, refusals, alerts })
    const watches = new RemoteWatches({ ...options, id: 'a1' })
    const shown: string[] = []
    let seen = 0
    const listener = {
      onItem: (json: string) => shown.push(json),
      onRate: (rate: { seen: number }) => {
        seen += rate.seen
      },
    }
    return { bus, timers, taps, refused, alerts, leases, watches, shown, listener, seen: () => seen }
  }

  it('show what fits, with its rate, and equal filters share one', async () => {
    const { timers, taps, leases, watches, shown, listener, seen } = stage()
    const ends = [watches.events.subscribe(FILTER, listener), watches.events.subscribe(FILTER, { ...listener })]
    expect(leases.count).toBe(1)
    taps.onStored?.(storedBatch(line, 'a'))
    expect(shown).toHaveLength(2)
    expect(JSON.parse(shown[0])).toMatchObject({ node: 'n2', event: { name: 'n' } })
    await timers.pass(1000)
    expect(seen()).toBe(2)
    for (const end of ends) end()
    expect([leases.count, taps.onStored]).toEqual([0, null])
  })

  it('of portals take none of the places of consoles', () => {
    const { taps, leases, watches, listener } = stage()
    for (let at = 0; at < 250; at++) watches.events.subscribe({ ...FILTER, app: `app-${at}`, portal: true }, listener)
    expect(leases.count).toBe(200)
    const shown: string[] = []
    watches.events.subscribe(FILTER, { ...listener, onItem: (json) => shown.push(json) })
    taps.onStored?.(storedBatch(line, 'a'))
    expect(shown).toHaveLength(1)
  })

  it('show the refusals of others that fit, and nothing that is none', () => {
    const { bus, refused, watches, shown, listener } = stage()
    watches.refusals.subscribe({ app: 'shop', code: null }, listener)
    for (const app_id of ['shop', 'other']) refused.add(aRefusal({ app_id }))
    const item = (json: string) => bus.publish('sluice.console.feed.a1-1', packed({ kind: 'item' }, Buffer.from(json)))
    for (const json of ['{"code":"invalid_json"}', '[]', '{', `${shown[0]}\nevent: x`]) item(json)
    expect(shown.map((json) => JSON.parse(json))).toMatchObject([{ app_id: 'shop', node: 'n2' }])
    item(shown[0])
    expect(shown).toHaveLength(2)
  })

  it('show the alerts of others that fit, and none whose id is no id', () => {
    const { bus, alerts, watches, shown, listener } = stage()
    watches.alerts.subscribe({ app: 'shop' }, listener)
    for (const app_id of ['other', 'shop']) alerts.tell(anAlert({ app_id }))
    const item = (json: string) => bus.publish('sluice.console.feed.a1-1', packed({ kind: 'item' }, Buffer.from(json)))
    for (const id of ['7', '1f5fa598-cf1b-5824-9f70-2c589dff94d2\\nevent: x']) item(JSON.stringify(anAlert({ id })))
    item('{"id":"1f5fa598-cf1b-5824-9f70-2c589dff94d2"}')
    expect(shown).toEqual([JSON.stringify(anAlert())])
    item(shown[0])
    expect(shown).toHaveLength(2)
  })

  it('go on while the watcher is there, and cost nothing 20 seconds after it died', async () => {
    const { bus, timers, taps, watches, listener } = stage()
    watches.events.subscribe(FILTER, listener)
    await timers.pass(60_000)
    expect(taps.onStored).not.toBe(null)
    bus.isUp = false
    await timers.pass(20_000)
    expect(taps.onStored).toBe(null)
  })
})
