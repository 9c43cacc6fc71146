// What a node holds of one app: its bucket, its share without Redis, and what it has still to tell.

import { describe, expect, it } from 'vitest'
import type { App } from '../../../../src/apps/app.ts'
import { Room } from '../../../../src/limits/shared/app-budget.ts'
import type { AppAnswer } from '../../../../src/limits/shared/take.ts'
import { anApp } from '../../apps/apps.ts'

const NOON = Date.UTC(2026, 10, 20, 12) / 60_000

/** A room at noon, of which Redis has said what is used. */
function aRoom(app: App = anApp(), heard: Partial<AppAnswer> = {}): Room {
  const room = new Room(app, 0)
  room.use(app, NOON, 0)
  room.apply({ minute: NOON, cycleMinute: 0, monthUsed: 0, dayUsed: 0, minuteUsed: 0, granted: 0, takes: [], ...heard })
  return room
}

const given = (room: Room): [number, number][] => [...room.givenBack]

describe('the bucket of an app', () => {
  it('is wanted from 40 requests a second on, for a second more of events', () => {
    const room = aRoom()
    for (let count = 1; count <= 39; count++) room.countRequest(10, 0)
    expect(room.wantedAt(999)).toBe(0)
    room.countRequest(10, 999)
    expect(room.wantedAt(999)).toBe(400)
  })

  it('is wanted for the second after a fast one, and not when a second without requests has passed', () => {
    const room = aRoom()
    for (let count = 0; count < 40; count++) room.countRequest(10, 0)
    room.countRequest(1, 1000)
    expect(room.wantedAt(1500)).toBe(400)
    expect(room.wantedAt(3000)).toBe(0)
    room.countRequest(1, 3500)
    expect(room.wantedAt(3500)).toBe(0)
  })

  it('is wanted less by what it holds', () => {
    const room = aRoom(anApp(), { granted: 150 })
    for (let count = 0; count < 40; count++) room.countRequest(10, 0)
    expect(room.wantedAt(0)).toBe(250)
  })

  it('is spent whole batches at a time, and is low under a quarter', () => {
    const room = aRoom(anApp(), { minuteUsed: 20, granted: 20 })
    expect([room.spend(0), room.spend(21)]).toEqual([false, false])
    expect([room.spend(15), room.isBucketLow]).toEqual([true, false])
    expect([room.spend(1), room.isBucketLow]).toEqual([true, true])
    expect([room.spend(4), room.spend(1)]).toEqual([true, false])
    expect(given(room)).toEqual([])
  })

  it('is not used up to what is shown', () => {
    const room = aRoom(anApp(), { monthUsed: 70, dayUsed: 60, minuteUsed: 50, granted: 20 })
    expect(room.usedAt(NOON)).toEqual({ month: 50, day: 40, minute: 30 })
    room.spend(5)
    expect(room.usedAt(NOON)).toEqual({ month: 55, day: 45, minute: 35 })
  })

  it('belongs to its minute: what is left goes back there when the minute turns', () => {
    const room = aRoom(anApp(), { granted: 20 })
    room.spend(8)
    room.use(room.app, NOON + 1, 60_000)
    expect(room.spend(1)).toBe(false)
    expect(given(room)).toEqual([[NOON, 12]])
  })

  it('goes back when Redis is in the next minute already, and takes what is granted there', () => {
    const room = aRoom(anApp(), { granted: 20 })
    room.apply({ minute: NOON + 1, cycleMinute: 0, monthUsed: 5, dayUsed: 5, minuteUsed: 5, granted: 5, takes: [] })
    expect([room.bucketMinute, room.tokens]).toEqual([NOON + 1, 5])
    expect(given(room)).toEqual([[NOON, 20]])
  })

  it('takes nothing of a minute that is over, which goes back', () => {
    const room = aRoom(anApp(), { minute: NOON + 1, minuteUsed: 9 })
    room.apply({ minute: NOON, cycleMinute: 0, monthUsed: 400, dayUsed: 400, minuteUsed: 400, granted: 30, takes: [] })
    expect(room.tokens).toBe(0)
    expect(room.usedAt(NOON + 1).minute).toBe(9)
    expect(given(room)).toEqual([[NOON, 30]])
  })

  it.each([{ eventsPerMinute: 10 }, { eventsPerDay: 5 }, { eventsPerMonth: 7 }, { billingAnchorMs: 0 }])(
    'goes back when the record allows something else: %j',
    (change) => {
      const room = aRoom(anApp(), { granted: 20 })
      room.use(anApp(change), NOON, 1)
      expect([room.tokens, given(room)]).toEqual([0, [[NOON, 20]]])
    },
  )

  it('stays when the record has changed in other ways', () => {
    const room = aRoom(anApp(), { granted: 20 })
    room.use(anApp({ name: 'another' }), NOON, 1)
    expect([room.tokens, given(room)]).toEqual([20, []])
  })

  it('goes back once, and what is given back by the minute adds up', () => {
    const room = aRoom(anApp(), { granted: 20 })
    room.emptyBucket()
    room.emptyBucket()
    room.giveBack(NOON, 3)
    expect(given(room)).toEqual([[NOON, 23]])
  })

  it('tells of three minutes: what is older, the audit has counted', () => {
    const room = aRoom()
    for (let minute = NOON; minute < NOON + 10; minute++) room.giveBack(minute, 1)
    expect(room.givenBack.size).toBeLessThanOrEqual(4)
  })
})

describe('the share of a node without Redis', () => {
  it('is what was left when Redis last answered, by the nodes there were, rounded down', () => {
    const room = aRoom(anApp({ eventsPerMinute: 100 }), { minuteUsed: 1 })
    expect(room.takeAlone(34, NOON, 3)).toBe('rate_limit_exceeded')
    expect(room.takeAlone(33, NOON, 3)).toBe(null)
    expect(room.takeAlone(1, NOON, 3)).toBe('rate_limit_exceeded')
    expect(room.takeAlone(33, NOON + 1, 3)).toBe(null)
  })

  it('is refused by the month, then the day, then the minute', () => {
    const tight = { eventsPerMinute: 30, eventsPerDay: 30, eventsPerMonth: 30 }
    expect(aRoom(anApp(tight)).takeAlone(11, NOON, 3)).toBe('monthly_limit_exceeded')
    expect(aRoom(anApp({ ...tight, eventsPerMonth: 300 })).takeAlone(11, NOON, 3)).toBe('daily_limit_exceeded')
    const loose = anApp({ ...tight, eventsPerMonth: 300, eventsPerDay: null })
    expect(aRoom(loose).takeAlone(11, NOON, 3)).toBe('rate_limit_exceeded')
  })

  it('is nothing of a limit that is used up, or was lowered below that', () => {
    expect(aRoom(anApp({ eventsPerMonth: 50 }), { monthUsed: 60 }).takeAlone(1, NOON, 1)).toBe('monthly_limit_exceeded')
  })

  it('takes one of the minute for an empty batch, and tells Redis of none', () => {
    const room = aRoom(anApp({ eventsPerMinute: 2, eventsPerMonth: 0 }))
    expect([room.takeAlone(0, NOON, 1), room.takeAlone(0, NOON, 1)]).toEqual([null, null])
    expect(room.takeAlone(0, NOON, 1)).toBe('rate_limit_exceeded')
    expect(given(room)).toEqual([])
  })

  it('is told to Redis later, in the minute in which it was spent', () => {
    const room = aRoom()
    room.takeAlone(5, NOON, 1)
    room.takeAlone(6, NOON, 1)
    room.takeAlone(7, NOON + 1, 1)
    expect(given(room)).toEqual([
      [NOON, -11],
      [NOON + 1, -7],
    ])
    room.giveBack(NOON, 6)
    expect(given(room)[0]).toEqual([NOON, -5])
  })

  it('is counted in its day and cycle, and anew in the next', () => {
    const app = anApp({ eventsPerMinute: 100, eventsPerDay: 100 })
    const room = aRoom(app, { monthUsed: 40, dayUsed: 40 })
    room.takeAlone(60, NOON, 1)
    expect(room.usedAt(NOON)).toEqual({ month: 100, day: 100, minute: 60 })
    expect(room.takeAlone(1, NOON + 1, 1)).toBe('daily_limit_exceeded')
    const midnight = NOON + 12 * 60
    expect(room.takeAlone(1, midnight, 1)).toBe(null)
    expect(room.usedAt(midnight)).toEqual({ month: 101, day: 1, minute: 1 })
    const december = Date.UTC(2026, 11, 1) / 60_000
    room.turnTo(december)
    expect(room.usedAt(december)).toEqual({ month: 0, day: 0, minute: 0 })
  })

  it('is worked out anew from what Redis says when it is back', () => {
    const room = aRoom(anApp({ eventsPerMinute: 100 }), { minuteUsed: 50 })
    expect(room.takeAlone(50, NOON, 1)).toBe(null)
    room.apply({ minute: NOON, cycleMinute: 0, monthUsed: 70, dayUsed: 70, minuteUsed: 70, granted: 0, takes: [] })
    expect(room.takeAlone(31, NOON, 1)).toBe('rate_limit_exceeded')
    expect(room.takeAlone(30, NOON, 1)).toBe(null)
  })

  it('of an app that Redis has said nothing of is a share of the whole limit', () => {
    const room = new Room(anApp({ eventsPerMinute: 100 }), 0)
    room.use(room.app, NOON, 0)
    expect(room.takeAlone(51, NOON, 2)).toBe('rate_limit_exceeded')
    expect(room.takeAlone(50, NOON, 2)).toBe(null)
  })
})
