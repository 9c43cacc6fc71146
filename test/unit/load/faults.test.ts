// A fault run's own judgement: what it must call wrong, and what it must let pass.

import { describe, expect, it } from 'vitest'
import { checkWindows, counterFault, eventsCharged, StreamCheck, Violations } from '../../../load/faults/checks.js'
import { episodes, FAULTS } from '../../../load/faults/faults.js'
import { checkOverloads } from '../../../load/faults/outage.js'
import { recoveries } from '../../../load/faults/report.js'
import { overloadReasons, sumsFault } from '../../../load/faults/watch.js'
import { createRng } from '../../../load/payloads.js'

type Batch = ConstructorParameters<typeof StreamCheck>[0]['batches'][number]
type Stored = StreamCheck['stored'][number]

const NOON_MS = Date.UTC(2026, 10, 20, 12)
const EVENTS = [{ name: 'a' }, { name: 'b' }]
const keyed = { appId: 'ample', appKey: 'ak_ample', share: 1, keyed: true }
const unkeyed = { appId: 'plain', appKey: 'ak_plain', share: 1, keyed: false }
const batchIdOf = (appId: string, key: string) => `${appId}:${key}`

function sent(changes: Partial<Batch> = {}): Batch {
  return {
    app: keyed,
    key: 'k1',
    body: { bytes: Buffer.from(''), events: EVENTS.length, eventsText: JSON.stringify(EVENTS) },
    startedAtMs: NOON_MS,
    batchId: 'ample:k1',
    outcome: 'accepted',
    fresh: 1,
    replays: 0,
    isDoubtful: false,
    history: 'its history',
    ...changes,
  }
}

function record(batchId: string, changes: { app_id?: string; events?: unknown[] } = {}) {
  const receivedAt = new Date(NOON_MS).toISOString()
  return { batch_id: batchId, app_id: 'ample', received_at: receivedAt, events: EVENTS, ...changes }
}

function judged(batches: Batch[], records: ReturnType<typeof record>[]) {
  const violations = new Violations()
  const check = new StreamCheck({ batches, apps: [keyed, unkeyed], batchIdOf, violations })
  for (const each of records) check.take(each)
  const { unacknowledged } = check.end()
  return { kinds: kindsOf(violations), unacknowledged, strays: check.strays }
}

function kindsOf(violations: Violations): string[] {
  return violations.lines().filter((line) => !line.startsWith(' '))
}

describe('the fault run’s check of the stream', () => {
  const stored = record('ample:k1')
  const unseen = { batchId: '', fresh: 0 }

  it.each<[string, Batch[], ReturnType<typeof record>[], string[]]>([
    ['a 202 that is there once', [sent()], [stored], []],
    ['one that clients know by replays alone', [sent({ fresh: 0, replays: 2 })], [stored], []],
    ['a 202 that is not there', [sent()], [], ['202, but not in the queue: 1']],
    ['one id that two answers named', [sent(), sent()], [stored], ['one batch id for two batches: 1']],
    [
      'a batch of nobody, twice',
      [],
      [record('x', { app_id: 'plain' }), record('x', { app_id: 'plain' })],
      ['stored twice: 1'],
    ],
    ['one that is there twice', [sent()], [stored, stored], ['stored twice: 1']],
    ['a batch that two nodes took for new', [sent({ fresh: 2 })], [stored], ['accepted twice as new: 1']],
    ['a wrong batch id', [sent({ batchId: 'else' })], [stored], ['wrong batch id: 1']],
    ['another app', [sent()], [record('ample:k1', { app_id: 'other' })], ['stored for another app: 1']],
    [
      'events that changed on the way',
      [sent()],
      [record('ample:k1', { events: [EVENTS[0]] })],
      ['stored with other events than were sent: 1'],
    ],
    ['what nobody sent', [], [record('other')], ['in the stream, but never sent: 1']],
    [
      'what every answer refused',
      [sent({ ...unseen, outcome: 'dropped' })],
      [stored],
      ['stored, though every answer refused it: 1'],
    ],
  ])('of %s', (_, batches, records, kinds) => {
    expect(judged(batches, records).kinds).toEqual(kinds)
  })

  it('lets be there what has no key, and what no client saw accepted, where a try ended in doubt', () => {
    expect(judged([], [record('other', { app_id: 'plain' })])).toMatchObject({ kinds: [], strays: 1 })
    const gaveUp = sent({ ...unseen, outcome: 'gave up', isDoubtful: true })
    expect(judged([gaveUp], [stored])).toMatchObject({ kinds: [], unacknowledged: [gaveUp] })
  })
})

describe('the fault run’s check of the limits', () => {
  const limits = { perMinute: 10, perDay: 20, perMonth: 30 }
  const stored = (events: number, atMs: number, changes: Partial<Batch> = {}): Stored => {
    return { appId: 'ample', batch: sent(changes), receivedAtMs: atMs, events }
  }
  type Spans = { startMs: number; endMs: number }[]
  const check = (list: Stored[], outages: Spans = [], starts: Spans = []) => {
    const violations = new Violations()
    const { notes, fullestMinute } = checkWindows({ app: keyed, limits, stored: list, outages, starts, violations })
    return { kinds: kindsOf(violations), notes, fullestMinute }
  }

  const DAY_MS = 86_400_000
  const full = stored(10, NOON_MS)

  it('lets each window be full, and finds one event too many in a minute, a day and a month', () => {
    const windows = [full, stored(10, NOON_MS + 60_000), stored(10, NOON_MS + DAY_MS)]
    expect(check(windows)).toEqual({ kinds: [], notes: [], fullestMinute: 10 })
    expect(check([full, stored(1, NOON_MS + 59_999)]).kinds).toEqual(['over the minute: 1'])
    expect(check([0, 1, 2].map((at) => stored(7, NOON_MS + at * 60_000))).kinds).toEqual(['over the day: 1'])
    expect(check([0, 1, 2, 3].map((at) => stored(8, NOON_MS + at * DAY_MS))).kinds).toEqual(['over the month: 1'])
  })

  it('tells windows of an outage of Redis apart, within bounds, and batches in doubt', () => {
    const outage = { startMs: NOON_MS - 5000, endMs: NOON_MS + 1000 }
    expect(check([full, stored(5, NOON_MS)], [outage])).toMatchObject({ kinds: [], notes: [expect.anything()] })
    const farOver = check([full, stored(6, NOON_MS)], [outage])
    expect(farOver.kinds).toEqual(['far over the minute while Redis was away: 1'])
    // A node that starts meanwhile may give out one limit more.
    const start = { startMs: NOON_MS - 1000, endMs: NOON_MS + 500 }
    expect(check([full, stored(15, NOON_MS)], [outage], [start]).kinds).toEqual([])
    expect(check([full, stored(16, NOON_MS)], [outage], [start]).kinds).toEqual(farOver.kinds)
    const before = { startMs: NOON_MS - 5000, endMs: NOON_MS - 1 }
    expect(check([full, stored(5, NOON_MS)], [before]).kinds).toEqual(['over the minute: 1'])
    const doubt = check([full, stored(1, NOON_MS, { isDoubtful: true })])
    expect(doubt).toMatchObject({ kinds: [], notes: [expect.anything()] })
  })

  it('wants the counter to be what was accepted, or what may have been', () => {
    const list = [stored(5, NOON_MS), stored(3, NOON_MS, { outcome: 'gave up' })]
    const charged = eventsCharged(list)
    expect(charged).toEqual({ least: 5, most: 8 })
    const faultAt = (used: number) => counterFault({ appId: 'ample', window: 'day', used, charged })
    expect([4, 5, 8, 9].map((used) => faultAt(used) === null)).toEqual([false, true, true, false])
  })
})

describe('the fault run’s faults', () => {
  const first = (seed: number, kinds: readonly (typeof FAULTS)[number][], count: number) => {
    const sequence = episodes({ rng: createRng(seed), kinds, nodes: 2, everyMs: 5000 })
    return Array.from({ length: count }, () => sequence.next().value)
  }

  it('come in the same order from the same seed, and in another from another', () => {
    expect(first(7, FAULTS, 50)).toEqual(first(7, FAULTS, 50))
    expect(first(7, FAULTS, 50)).not.toEqual(first(8, FAULTS, 50))
  })

  it('are of every kind, alone and two at once, never twice on one part, and only those asked for', () => {
    const list = first(3, FAULTS, 300)
    const kinds = list.flatMap(({ faults }) => faults.map(({ kind }) => kind))
    expect(new Set(kinds)).toEqual(new Set(FAULTS))
    expect(new Set(list.map(({ faults }) => faults.length))).toEqual(new Set([1, 2]))
    const pairs = list.filter(({ faults }) => faults.length === 2).map(({ faults }) => faults)
    const isSame = pairs.filter(([one, other]) => {
      const isServer = ['redis', 'nats'].some((part) => one.kind.startsWith(part) && other.kind.startsWith(part))
      const isNode = one.kind.startsWith('node') && other.kind.startsWith('node')
      return isServer || (isNode && one.nodeIndex === other.nodeIndex)
    })
    expect(isSame).toEqual([])
    const few = first(3, ['cut', 'nats-kill'], 100).flatMap(({ faults }) => faults.map(({ kind }) => kind))
    expect(new Set(few)).toEqual(new Set(['cut', 'nats-kill']))
  })

  it('count a failure after they healed as time to recover, of single faults only', () => {
    const entry = { kind: 'nats-kill' as const, target: 'nats', startedMs: 0, healedMs: 100 }
    const episode = { startedMs: 0, healedMs: 100, readyMs: 100, endedMs: 1000, entries: [entry] }
    const failedTries = [50, 400, 996, 2000].map((startedAtMs) => ({
      startedAtMs,
      endedAtMs: startedAtMs + 5,
      node: 'node-1',
      what: 'timeout',
    }))
    const recovery = { times: 1, alone: 1, worstMs: 300, what: 'timeout of node-1' }
    expect(recoveries([episode], failedTries).get('nats-kill')).toEqual(recovery)
    const both = { ...episode, entries: [entry, { ...entry, kind: 'cut' as const }] }
    expect(recoveries([both], failedTries).get('nats-kill')).toMatchObject({ times: 1, alone: 0, worstMs: 0 })
  })
})

describe('the fault run’s look at the metrics', () => {
  const page = (received: number, accepted: number, inFlight: number) =>
    [
      `sluice_requests_received_total ${received}`,
      `sluice_requests_total{status="202",code="accepted"} ${accepted}`,
      'sluice_requests_total{status="503",code="service_overloaded"} 2',
      `sluice_requests_in_flight ${inFlight}`,
    ].join('\n')

  it('wants outcomes and those in flight to be what was received', () => {
    expect(sumsFault(page(15, 10, 3))).toBeNull()
    expect(sumsFault(page(16, 10, 3))).toBe('received 16, ended 12, in flight 3')
  })
})

describe('the fault run’s long outage of NATS', () => {
  const judge = (overloaded: number, reasons: Record<string, number>) => {
    const violations = new Violations()
    checkOverloads({ tries: 10_000, overloaded, reasons }, violations)
    return kindsOf(violations)
  }

  it('lets 503s be for two reasons, and those for a busy key be a thousandth', () => {
    expect(judge(0, {})).toEqual([])
    expect(judge(510, { apps_unread: 500, key_busy: 10 })).toEqual([])
    expect(judge(11, { key_busy: 11 })).toEqual(['too many 503s: 1'])
    expect(judge(1, { spool_full: 1 })).toEqual(['a 503 while disk was left: 1'])
    // Those of a killed node's last seconds, which no page had.
    expect(judge(11, {})).toEqual(['too many 503s: 1'])
  })

  it('reads the reasons of 503s from a page', () => {
    const page = 'sluice_overloaded_total{reason="key_busy"} 3\nsluice_overloaded_total{reason="nats_away"} 0\n'
    expect(overloadReasons(page)).toEqual([['key_busy', 3]])
  })
})
