import { describe, expect, it } from 'vitest'
import type { OwnGroup, Refusal } from '../../../../src/contract/admin/refusals.ts'
import { Cluster, type Transport } from '../../../../src/inspect/peers/cluster.ts'
import {
  AnswersInParts,
  FORMAT,
  MAX_PIECE_BYTES,
  packed,
  splitAnswer,
  unpack,
} from '../../../../src/inspect/peers/peer-messages.ts'
import type { Own, Question } from '../../../../src/inspect/question.ts'
import type { GatherOptions, OnPeerMessage } from '../../../../src/nats/peers.ts'
import { ManualTimers } from '../../../support/timers.ts'
import { anAlert, aRefusal, report } from '../reports.ts'

const NOW = { name: 'now', scope: 'all', query: '' } as const
const REFUSALS = { name: 'refusals', scope: 'all', query: 'limit=1000' } as const

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

  gather(subject: string, data: Uint8Array, options: GatherOptions): Promise<boolean> {
    const { timeoutMs, onReply, maxReplies } = options
    if (!this.isUp) return Promise.resolve(false)
    return new Promise((resolve) => {
      let replies = 0
      this.#inboxes += 1
      const inbox = `sluice.console.reply.${this.#inboxes}`
      this.on(inbox, (message) => {
        replies += 1
        if (onReply(message.data) || replies >= maxReplies) resolve(true)
      })
      this.timers.setTimeout(() => resolve(true), timeoutMs)
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

function ownNamed(name: string, answer: (question: Question) => object = () => report(name)): Own {
  return { name, answer: async (question) => ({ status: 200, json: JSON.stringify(answer(question)) }) }
}

function join(bus: Bus, id: string, own: Own | null = ownNamed(id)): Cluster {
  const faults = (error: unknown) => {
    throw error
  }
  return new Cluster({ peers: bus, own, id, timers: bus.timers, onFault: faults })
}

async function namesSeenBy(bus: Bus, cluster: Cluster) {
  const asking = cluster.all(NOW)
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
      const asking = one.all(NOW).finally(() => (endMs = bus.timers.monotonicMs()))
      await bus.timers.pass(1000)
      expect((await asking).pieces.map(({ node }) => node)).toEqual(names)
      return endMs - startMs
    }
    expect(await waitedMs(['a'])).toBe(500)
    expect([await waitedMs(['a']), await waitedMs(['a'])]).toEqual([0, 0])
    bus.isUp = false
    expect((await one.all(NOW)).problem).toBe('other nodes cannot be asked: NATS is away')
    bus.isUp = true
    one.up()
    expect([await waitedMs(['a']), await waitedMs(['a'])]).toEqual([500, 0])
    const other = join(bus, 'b')
    other.announce()
    await bus.timers.pass(0)
    // Others may be there, which are heard later.
    expect(await waitedMs(['a', 'b'])).toBe(500)
    await bus.timers.pass(58_000)
    other.announce()
    await bus.timers.pass(1000)
    expect(await waitedMs(['a', 'b'])).toBe(0)
    // Killed: it is waited for while it may only be slow, and then once more.
    other.stop()
    expect([await waitedMs(['a']), await waitedMs(['a'])]).toEqual([500, 500])
    await bus.timers.pass(60_000)
    expect([await waitedMs(['a']), await waitedMs(['a'])]).toEqual([500, 0])
  })

  it.each(['at its start', 'after it was cut off from them'])(
    'leaves out none that it has not heard yet: %s',
    async (when) => {
      const bus = new Bus()
      const one = join(bus, 'a')
      // It answers after the others.
      const slow = join(bus, 'c', {
        name: 'c',
        answer: async () => {
          await new Promise<void>((resolve) => bus.timers.setTimeout(resolve, 100))
          return { status: 200, json: JSON.stringify(report('c')) }
        },
      })
      const sibling = join(bus, 'b')
      if (when !== 'at its start') {
        slow.announce()
        sibling.announce()
        await bus.timers.pass(100_000)
      }
      sibling.announce()
      await bus.timers.pass(0)
      for (let asked = 0; asked < 20; asked++) {
        expect(await namesSeenBy(bus, one)).toEqual({ names: ['a', 'b', 'c'], silent: [], problem: null })
        await bus.timers.pass(1000)
      }
      for (let announced = 0; announced < 5; announced++) {
        slow.announce()
        sibling.announce()
        await bus.timers.pass(20_000)
        expect((await namesSeenBy(bus, one)).names).toEqual(['a', 'b', 'c'])
      }
    },
  )

  it('is not alone where another one is heard while nobody answers', async () => {
    const bus = new Bus()
    const one = join(bus, 'a')
    const asking = one.all(NOW)
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

  it('brings answers of any length, in parts', async () => {
    const bus = new Bus()
    const { time_ms: _, ...known } = aRefusal({ message: 'x'.repeat(900), request_id: 'r' })
    const refusals = Array.from(
      { length: 1000 },
      (): Refusal => ({ time: '2026-11-22T10:00:00.000Z', ...known, node: 'b' }),
    )
    const one = join(bus, 'a')
    for (const id of ['b', 'c']) {
      const piece = { refusals, groups: [], minute: 1, since_ms: 0 }
      const own = ownNamed(id, ({ name }) => (name === 'now' ? report(id) : piece))
      join(bus, id, own).announce()
    }
    await bus.timers.pass(0)
    const asking = one.all(REFUSALS)
    await bus.timers.pass(500)
    const { pieces } = await asking
    expect(pieces.slice(1).map((piece) => piece.refusals)).toEqual([refusals, refusals])
    expect(bus.largestBytes).toBeLessThanOrEqual(MAX_PIECE_BYTES + 100)
  })

  it('what is watched live goes to all with its body, and what is no item of its kind is dropped', async () => {
    const bus = new Bus()
    const { time_ms: _, ...refusal } = aRefusal()
    const shown = JSON.stringify({ time: '2026-11-22T10:00:00.000Z', ...refusal, node: 'b' })
    const answers: Record<string, unknown[]> = {
      refusals: [shown, `${shown}\nevent: x`, '{"code":"invalid_json"}', '[]', '{'],
      alerts: ['1f5fa598-cf1b-5824-9f70-2c589dff94d2', '7', '1f5fa598-cf1b-5824-9f70-2c589dff94d2\nevent: x']
        .map((id) => JSON.stringify(anAlert({ id })))
        .concat('{"id":"1f5fa598-cf1b-5824-9f70-2c589dff94d2"}'),
      events: ['{"any":1}', '{"any":1}\nevent: x', 5, { seen: 'x' }],
    }
    const one = join(bus, 'a', null)
    for (const [kind, all] of Object.entries(answers)) {
      const others = all.map((kept, at) => {
        const own = ownNamed(`${at}`, ({ body }) => {
          expect(body?.toString()).toBe(JSON.stringify({ kind, watches: [] }))
          return { node: `${at}`, kind, told: [{ next: 1, kept: [kept] }] }
        })
        return join(bus, `${at}`, own)
      })
      const body = Buffer.from(JSON.stringify({ kind, watches: [] }))
      const asking = one.all({ name: 'live', scope: 'all', query: '', body })
      await bus.timers.pass(500)
      expect([kind, (await asking).pieces.map(({ node }) => node)]).toEqual([kind, ['0']])
      for (const other of others) other.stop()
    }
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
    const asking = one.all(REFUSALS)
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
  it('brings an answer of several megabytes, of one process', async () => {
    const bus = new Bus()
    const text = 'ä'.repeat(1_000_000)
    const asked: unknown[] = []
    for (const id of ['a', 'b']) {
      const own = ownNamed(id, ({ name, scope, query, body }) => {
        asked.push([name, scope, query, body?.toString()])
        return [text]
      })
      join(bus, id, own)
    }
    const question = {
      name: 'explain',
      scope: { appId: 'shop' },
      query: 'app_key=k',
      body: Buffer.from('a body'),
    } as const
    expect(await join(bus, 's', null).one(question)).toEqual({ status: 200, json: JSON.stringify([text]) })
    expect(asked).toEqual([['explain', { appId: 'shop' }, 'app_key=k', 'a body']])
  })

  it('asks this process, where it has stores', async () => {
    const bus = new Bus()
    const one = join(bus, 'a')
    bus.isUp = false
    expect(JSON.parse((await one.one({ name: 'apps', scope: 'all', query: '' })).json)).toMatchObject({ node: 'a' })
  })

  it('says that no node answers', async () => {
    const bus = new Bus()
    const asking = join(bus, 's', null).one({ name: 'apps', scope: 'all', query: '' })
    await bus.timers.pass(15_000)
    expect((await asking).status).toBe(503)
  })

  it('never lets all do what the stores answer, nor one for all what each knows of itself', async () => {
    const bus = new Bus()
    const replies: unknown[] = []
    bus.on('sluice.console.reply.x', ({ data }) => void replies.push(data))
    join(bus, 'a')
    const ask = (subject: string, name: string) =>
      bus.publish(subject, packed({ from: 'x', name, scope: 'all', query: '' }), 'sluice.console.reply.x')
    ask('sluice.console.ask', 'search')
    ask('sluice.console.one', 'now')
    await bus.timers.pass(0)
    expect(replies).toEqual([])
    ask('sluice.console.ask', 'now')
    await bus.timers.pass(0)
    expect(replies).toHaveLength(1)
  })

  it('takes parts in any order, each once, and waits for all', () => {
    const parts = splitAnswer('b', { status: 200, json: 'x'.repeat(600_000) })
    expect(parts).toHaveLength(3)
    const answers = new AnswersInParts()
    for (const part of [parts[2], parts[2], parts[0]]) answers.add(part)
    expect(answers.whole).toEqual([])
    for (const part of [...parts, Buffer.from('x')]) answers.add(part)
    expect(answers.whole.map(({ json }) => json.length)).toEqual([600_000])
    expect(unpack(Buffer.from(`{"format":${FORMAT}}`), (head): head is object => typeof head === 'object')).toBe(null)
  })
})
