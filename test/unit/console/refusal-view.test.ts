import { describe, expect, it } from 'vitest'
import { OwnRefusals } from '../../../src/console/own-refusals.ts'
import { RefusalFeed } from '../../../src/console/refusal-feed.ts'
import {
  mergeRefusals,
  type RefusalQuestion,
  readRefusalQuestion,
  refusalsPiece,
  refusedCounts,
} from '../../../src/console/refusal-view.ts'
import { Refusals } from '../../../src/console/refusals.ts'
import { Watcher } from '../../../src/console/watchers.ts'
import { ManualTimers } from '../../support/timers.ts'

const ALL: RefusalQuestion = { app: null, code: null, limit: 100 }
const MINUTE_MS = 60_000

function add(refusals: Refusals, timeMs: number, app: string | null, code = 'invalid_json', id = `${timeMs}`): void {
  refusals.add(timeMs, id, app, code, null, 'a message', null)
}

describe('refusals of several nodes', () => {
  it('stand together, newest first, up to the limit', () => {
    const [one, other] = [new Refusals(), new Refusals()]
    add(one, 1000, 'a')
    add(other, 2000, 'a')
    add(one, 3000, 'b')
    const pieces = [
      refusalsPiece(one, ALL, { node: 'n1', nowMs: 3000 }),
      refusalsPiece(other, ALL, { node: 'n2', nowMs: 3000 }),
    ]
    expect(mergeRefusals(pieces, 2)).toMatchObject({
      refusals: [
        { app_id: 'b', node: 'n1', time: '1970-01-01T00:00:03.000Z' },
        { app_id: 'a', node: 'n2' },
      ],
      groups: [
        { app_id: 'a', count: 2, first_at: '1970-01-01T00:00:01.000Z', last_at: '1970-01-01T00:00:02.000Z' },
        { app_id: 'b', count: 1 },
      ],
    })
  })

  it('count in the same minutes, where one node answers a minute later', () => {
    const refusals = new Refusals()
    add(refusals, 5 * MINUTE_MS, 'a')
    const early = refusalsPiece(refusals, ALL, { node: 'n1', nowMs: 5 * MINUTE_MS })
    const late = refusalsPiece(refusals, ALL, { node: 'n2', nowMs: 6 * MINUTE_MS })
    const { groups } = mergeRefusals([early, late], 1)
    expect(groups[0].per_minute).toHaveLength(60)
    expect(groups[0].per_minute.slice(-3)).toEqual([0, 2, 0])
  })
})

describe('a question', () => {
  it('asks for an app, for none, or for a code', () => {
    const refusals = new Refusals()
    add(refusals, 1000, 'a', 'invalid_json')
    add(refusals, 2000, null, 'not_found')
    const idsOf = (query: string) => {
      const question = readRefusalQuestion(new URLSearchParams(query))
      if (typeof question === 'string') throw new Error(question)
      return refusalsPiece(refusals, question, { node: 'n', nowMs: 3000 }).refusals.map(({ request_id: id }) => id)
    }
    expect(idsOf('')).toEqual(['2000', '1000'])
    expect(idsOf('app=a')).toEqual(['1000'])
    expect(idsOf('app=-')).toEqual(['2000'])
    expect(idsOf('code=not_found&app=')).toEqual(['2000'])
    expect(idsOf('limit=1')).toEqual(['2000'])
  })

  it('is refused with a sentence where it is wrong', () => {
    for (const query of ['limit=0', 'limit=1001', 'limit=x', `app=${'x'.repeat(101)}`]) {
      expect(readRefusalQuestion(new URLSearchParams(query))).toEqual(expect.stringMatching(/^(limit|app): must/))
    }
  })
})

it('counts of the last hour are by app and code, the most frequent first', () => {
  const refusals = new Refusals()
  refusals.add(1, 'r', 'a', 'validation_failed', 'events[0].name', '', null)
  refusals.add(2, 'r', 'a', 'validation_failed', 'events[0].type', '', null)
  add(refusals, 3, 'b')
  expect(refusedCounts(refusals, 4)).toEqual([
    { app_id: 'a', code: 'validation_failed', count: 2 },
    { app_id: 'b', code: 'invalid_json', count: 1 },
  ])
})

describe('a stream of refusals', () => {
  function stage() {
    const timers = new ManualTimers()
    const refusals = new Refusals()
    const own = new OwnRefusals(refusals, { node: 'n1', timers })
    const feed = new RefusalFeed([own], timers)
    const sink = {
      text: '',
      isDrained: true,
      send: (text: string): boolean => {
        sink.text += text
        return sink.isDrained
      },
      end: () => {},
    }
    const idsIn = () => [...sink.text.matchAll(/"request_id":"([^"]*)"/g)].map(([, id]) => id)
    return { timers, refusals, feed, sink, idsIn }
  }

  it('sends the earlier ones first, and none twice', async () => {
    const { timers, refusals, feed, sink, idsIn } = stage()
    add(refusals, 1000, 'a', 'invalid_json', 'one')
    let tell: (value: never[]) => void = () => {}
    const earlier = new Promise<never[]>((resolve) => {
      tell = resolve
    })
    const end = feed.add(new Watcher(sink), { app: null, code: null }, earlier)
    add(refusals, 2000, 'a', 'invalid_json', 'two')
    add(refusals, 3000, 'a', 'invalid_json', 'three')
    const { refusals: known } = refusalsPiece(refusals, ALL, { node: 'n1', nowMs: 3000 })
    tell(known.filter(({ request_id: id }) => id !== 'three').toReversed() as never[])
    await timers.pass(0)
    expect(idsIn()).toEqual(['one', 'two', 'three'])
    end()
    add(refusals, 4000, 'a', 'invalid_json', 'four')
    expect(idsIn()).toHaveLength(3)
  })

  it('counts what it leaves out, beyond its rate and where the watcher does not read', async () => {
    const { timers, refusals, feed, sink, idsIn } = stage()
    feed.add(new Watcher(sink), { app: null, code: null }, Promise.resolve([]))
    await timers.pass(0)
    for (let count = 0; count < 250; count++) add(refusals, count, 'a')
    expect(idsIn()).toHaveLength(200)
    await timers.pass(2000)
    expect(sink.text).toContain('event: skipped\ndata: {"count":50}')
    sink.isDrained = false
    sink.text = ''
    add(refusals, 5000, 'a')
    expect(sink.text).toBe('')
    sink.isDrained = true
    await timers.pass(1000)
    expect(sink.text).toBe('event: skipped\ndata: {"count":1}\n\n')
  })
})
