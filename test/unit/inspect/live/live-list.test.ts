import { describe, expect, it } from 'vitest'
import { SinkWatcher } from '../../../../src/console/watchers.ts'
import type { Live, Pieces } from '../../../../src/contract/admin/peers.ts'
import { EventTaps } from '../../../../src/inspect/live/event-tap.ts'
import { alertTaps, refusalTaps } from '../../../../src/inspect/live/item-taps.ts'
import { LiveList } from '../../../../src/inspect/live/live-list.ts'
import { answerLive } from '../../../../src/inspect/live/taps.ts'
import type { Ask } from '../../../../src/inspect/question.ts'
import { Refusals } from '../../../../src/inspect/refusals/refusals.ts'
import { Sink } from '../../../support/sink.ts'
import { ManualTimers } from '../../../support/timers.ts'
import { anAlert, aRefusal, storedBatch } from '../reports.ts'

const ANY_EVENT = { app: null, type: null, name: null, user: null } as const
const ANY_REFUSAL = { app: null, code: null } as const
const LINE = Buffer.from(
  '{"v":1,"batch_id":"0b9e3a52-6f0c-7d7e-9a55-2f8c1d3e4b6a","app_id":"a","received_at":"2026-11-22T10:00:00.000Z","events":[{"type":"track","name":"n"}]}\n',
)

function node(name: string, timers: ManualTimers) {
  const events = new EventTaps({ node: name, timers, onFault: () => {} })
  const refused = new Refusals()
  const alerts = alertTaps(timers)
  const taps = { events: events.taps, refusals: refusalTaps(refused, { node: name, timers }), alerts: alerts.taps }
  return {
    refuse: (id: string) => refused.add(aRefusal({ app_id: 'a', request_id: id })),
    store: () => events.onStored?.(storedBatch(LINE, 'a')),
    tell: alerts.tell,
    isWatched: () => events.onStored !== null,
    answer: (asked: Live): Pieces['live'] => answerLive(name, taps, asked),
  }
}

/** Two nodes, and lists that ask both. */
function stage() {
  const timers = new ManualTimers()
  const nodes = [node('n1', timers), node('n2', timers)]
  const asked: Live[] = []
  const faults: unknown[] = []
  const lost = { answers: 0 }
  const all = async ({ body = Buffer.alloc(0) }) => {
    const live = JSON.parse(body.toString()) as Live
    asked.push(live)
    const pieces = nodes.map((one) => one.answer(live))
    if (lost.answers-- > 0) throw new Error('lost')
    return { pieces, silent: [], problem: null }
  }
  const options = {
    ask: { all: all as unknown as Ask['all'] },
    timers,
    onFault: (error: unknown) => faults.push(error),
  }
  const sink = new Sink()
  const idsIn = () => [...sink.text.matchAll(/"request_id":"([^"]*)"/g)].map(([, id]) => id)
  return { timers, nodes, asked, faults, lost, options, sink, idsIn }
}

describe('what is watched live', () => {
  it('comes from every node within half a second, in order, and once a second its rate', async () => {
    const { timers, nodes, asked, options, sink } = stage()
    const list = new LiveList('events', options)
    const ends = [list.add(new SinkWatcher(sink), ANY_EVENT), list.add(new SinkWatcher(new Sink()), ANY_EVENT)]
    await timers.pass(400)
    for (const { store } of nodes) store()
    await timers.pass(100)
    expect(sink.text.match(/"node":"n\d"/g)).toEqual(['"node":"n1"', '"node":"n2"'])
    await timers.pass(1500)
    expect(sink.text).toContain('event: rate\ndata: {"seen_per_second":2,"shown_per_second":0}\n\n')
    // Both have one filter, which is asked for at once and then twice a second.
    expect(asked.map(({ watches }) => watches.length)).toEqual([1, 1, 1, 1, 1])
    for (const end of ends) end()
    await timers.pass(6000)
    expect([asked.length, nodes.map(({ isWatched }) => isWatched())]).toEqual([5, [false, false]])
  })

  it('comes with the next answer where one is lost, and once', async () => {
    const { timers, nodes, faults, lost, options, sink, idsIn } = stage()
    new LiveList('refusals', options).add(new SinkWatcher(sink), ANY_REFUSAL)
    await timers.pass(0)
    nodes[1].refuse('one')
    lost.answers = 2
    await timers.pass(1000)
    expect([idsIn(), faults]).toEqual([[], [new Error('lost'), new Error('lost')]])
    await timers.pass(2000)
    expect(idsIn()).toEqual(['one'])
  })

  it('comes from a node that has started again', async () => {
    const { timers, nodes, options, sink, idsIn } = stage()
    new LiveList('refusals', options).add(new SinkWatcher(sink), ANY_REFUSAL)
    await timers.pass(0)
    for (const id of ['one', 'two']) nodes[1].refuse(id)
    await timers.pass(500)
    nodes[1] = node('n2', timers)
    await timers.pass(500)
    nodes[1].refuse('three')
    await timers.pass(500)
    expect(idsIn()).toEqual(['one', 'two', 'three'])
  })

  it('on portals takes none of the places of consoles', () => {
    const own = node('n', new ManualTimers())
    const told = (filter: object) =>
      own.answer({ kind: 'events', watches: [{ filter: { ...ANY_EVENT, ...filter }, since: { n: 0 } }] }).told[0].kept
    for (let at = 0; at < 250; at++) told({ app: at === 0 ? 'a' : `app-${at}`, portal: true })
    told({ app: 'a' })
    own.store()
    expect([told({ app: 'a' }), told({ app: 'a', portal: true })].map(({ length }) => length)).toEqual([1, 1])
    expect(told({ portal: true })).toEqual([])
    own.store()
    expect(told({ portal: true })).toEqual([])
  })
})

describe('a stream of refusals', () => {
  it('sends the earlier ones first, and none twice', async () => {
    const { timers, nodes, options, sink, idsIn } = stage()
    let tell: (value: string[]) => void = () => {}
    const earlier = () =>
      new Promise<string[]>((resolve) => {
        tell = resolve
      })
    const end = new LiveList('refusals', options).add(new SinkWatcher(sink), ANY_REFUSAL, { earlier })
    await timers.pass(0)
    for (const id of ['two', 'three']) nodes[0].refuse(id)
    // 'two' came before what is earlier was read.
    const json = (id: string) => {
      const { time_ms: _, ...refusal } = aRefusal({ app_id: 'a', request_id: id })
      return JSON.stringify({ time: '1970-01-01T00:00:00.000Z', ...refusal, node: 'n1' })
    }
    tell(['one', 'two'].map(json))
    await timers.pass(1000)
    expect(idsIn()).toEqual(['one', 'two', 'three'])
    end()
    nodes[0].refuse('four')
    await timers.pass(1000)
    expect(idsIn()).toHaveLength(3)
  })

  it('sends nothing to one that has ended while the earlier ones were looked for', async () => {
    const { timers, options, sink } = stage()
    new LiveList('refusals', options).add(new SinkWatcher(sink), ANY_REFUSAL, { earlier: async () => ['{}'] })
    sink.end()
    await timers.pass(2000)
    expect(sink.text).toBe('')
  })

  it('counts what it leaves out, beyond its rate and where the watcher does not read', async () => {
    const { timers, nodes, options, sink, idsIn } = stage()
    new LiveList('refusals', options).add(new SinkWatcher(sink), ANY_REFUSAL)
    await timers.pass(0)
    for (let count = 0; count < 250; count++) nodes[0].refuse('r')
    await timers.pass(3000)
    expect(idsIn()).toHaveLength(200)
    expect(sink.text).toContain('event: skipped\ndata: {"count":50}')
    sink.writableLength = 10_000_000
    sink.text = ''
    nodes[0].refuse('r')
    await timers.pass(500)
    expect(sink.text).toBe('')
    sink.writableLength = 0
    await timers.pass(1000)
    expect(sink.text).toBe('event: skipped\ndata: {"count":1}\n\n')
  })
})

it('each alert has its id as that of its message, after the earlier ones, and none comes twice', async () => {
  const { timers, nodes, options, sink } = stage()
  const id = (number: number) => `1f5fa598-cf1b-5824-9f70-2c589dff94d${number}`
  const [first, second, third] = [1, 2, 3].map((number) => anAlert({ id: id(number) }))
  nodes[0].tell(first)
  const earlier = async () => {
    nodes[0].tell(second)
    return [first, second].map((alert) => JSON.stringify(alert))
  }
  const end = new LiveList('alerts', options).add(new SinkWatcher(sink), { app: 'shop' }, { earlier })
  await timers.pass(0)
  nodes[1].tell(third)
  nodes[1].tell(anAlert({ app_id: 'other', id: id(4) }))
  await timers.pass(500)
  end()
  nodes[1].tell(anAlert({ id: id(5) }))
  await timers.pass(500)
  const message = (alert: object, number: number) =>
    `event: alert\ndata: ${JSON.stringify(alert)}\nid: ${id(number)}\n\n`
  expect(sink.text).toBe(message(first, 1) + message(second, 2) + message(third, 3))
})
