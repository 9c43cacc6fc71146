import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AckWindow, type InFlight } from '../../../../src/queue/stream/ack-window.ts'
import { type Entry, Lane, Lanes, type Parcel } from '../../../../src/queue/stream/lanes.ts'

const LIMIT_BYTES = 64 * 1024
const A_CHARGE = { events: 1, takenAtMs: 0, minute: 0, cycleMinute: 0 }

function entry(number: number, keyed: boolean, bytes: number): Entry {
  const record = { line: new Uint8Array(bytes), batchId: `batch-${number}`, appId: 'demo', keyed, charge: A_CHARGE }
  return { record, onAck: () => {}, deadlineMs: number, number, burntIds: 0, next: null }
}

function numbersOf(first: Entry | null): number[] {
  const numbers = []
  for (let each = first; each !== null; each = each.next) numbers.push(each.number)
  return numbers
}

const wish = fc.record({
  keyed: fc.boolean(),
  bytes: fc.oneof(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 20_000, max: 70_000 })),
})

describe('a lane', () => {
  it('returns its entries in order, keyed ones alone and others together up to 64 KB', () => {
    fc.assert(
      fc.property(fc.array(wish, { maxLength: 30 }), (wishes) => {
        const lane = new Lane(3)
        for (const [number, { keyed, bytes }] of wishes.entries()) lane.push(entry(number, keyed, bytes))
        let at = 0
        for (let parcel = lane.take(); parcel !== null; parcel = lane.take()) {
          const numbers = numbersOf(parcel.first)
          expect(numbers).toEqual(numbers.map((_, index) => at + index))
          const taken = wishes.slice(at, at + numbers.length)
          const bytes = taken.reduce((sum, each) => sum + each.bytes, 0)
          expect(parcel).toMatchObject({ records: numbers.length, bytes })
          at += numbers.length
          const next = wishes[at]
          if (taken[0].keyed) expect(taken).toHaveLength(1)
          else expect(taken.some(({ keyed }) => keyed)).toBe(false)
          if (taken.length > 1) expect(bytes).toBeLessThanOrEqual(LIMIT_BYTES)
          if (next !== undefined && !next.keyed && !taken[0].keyed)
            expect(bytes + next.bytes).toBeGreaterThan(LIMIT_BYTES)
        }
        expect(at).toBe(wishes.length)
        expect(lane.first).toBe(null)
      }),
    )
  })

  it('is unchanged after parcels were put back in order, except for expired entries', () => {
    const move = fc.constantFrom('push', 'take', 'back', 'expire')
    fc.assert(
      fc.property(
        fc.array(move, { maxLength: 60 }),
        fc.array(wish, { minLength: 60, maxLength: 60 }),
        (moves, wishes) => {
          const lane = new Lane(0)
          const model: number[] = []
          const out: Parcel[] = []
          let pushed = 0
          for (const each of moves) {
            if (each === 'push') {
              const { keyed, bytes } = wishes[pushed]
              lane.push(entry(pushed, keyed, bytes))
              model.push(pushed)
              pushed += 1
            } else if (each === 'take') {
              const parcel = lane.take()
              if (parcel === null) continue
              out.push(parcel)
              expect(model.splice(0, parcel.records)).toEqual(numbersOf(parcel.first))
            } else if (each === 'back') {
              // Answers come in the order in which the messages were sent.
              for (const parcel of out.splice(0)) {
                model.push(...numbersOf(parcel.first))
                lane.putBack(parcel.first)
              }
              model.sort((left, right) => left - right)
            } else {
              const oldest = model[0] ?? -1
              const expired = lane.takeExpired(oldest)
              expect(expired?.number ?? -1).toBe(oldest)
              if (expired !== null) model.shift()
              expect(lane.takeExpired(oldest)).toBe(null)
            }
            expect(numbersOf(lane.first)).toEqual(model)
            const bytes = model.reduce((sum, number) => sum + wishes[number].bytes, 0)
            expect(lane.isFull).toBe(bytes >= LIMIT_BYTES)
          }
          lane.push(entry(1000, false, 1))
          expect(numbersOf(lane.first)).toEqual([...model, 1000])
        },
      ),
    )
  })
})

describe('all lanes', () => {
  const numbered = (number: number, appId: string): Entry => {
    const plain = entry(number, true, 10)
    return { ...plain, record: { ...plain.record, appId } }
  }

  it('return the oldest record first, whichever lane it is in, and each lane once', () => {
    const lanes = new Lanes(16)
    for (let number = 1; number <= 90; number += 1) lanes.push(numbered(number, `app-${number % 9}`))
    const given: number[] = []
    for (let lane = lanes.take(); lane !== undefined; lane = lanes.take()) {
      given.push(...numbersOf((lane.take() as Parcel).first))
      lanes.offer(lane)
      lanes.offer(lane)
    }
    expect(given).toEqual(Array.from({ length: 90 }, (_, at) => at + 1))
    expect(lanes.isReady).toBe(false)
  })

  it('remove the newest records, and continue after that', () => {
    const lanes = new Lanes(16)
    for (let number = 1; number <= 90; number += 1) lanes.push(numbered(number, `app-${number % 9}`))
    const after: number[] = []
    for (let first = lanes.takeAfter(30); first !== null; first = lanes.takeAfter(30)) after.push(...numbersOf(first))
    expect(after.sort((one, other) => one - other)).toEqual(Array.from({ length: 60 }, (_, at) => at + 31))
    lanes.push(numbered(91, 'app-0'))
    const left: number[] = []
    for (let next = lanes.takeExpired(1000); next !== null; next = lanes.takeExpired(1000)) left.push(next.number)
    expect(left.sort((one, other) => one - other)).toEqual([...Array.from({ length: 30 }, (_, at) => at + 1), 91])
  })
})

describe('the window of acknowledgements', () => {
  const parcelOf = (number: number, keyed: boolean, bytes: number): Parcel => ({
    first: entry(number, keyed, bytes),
    records: 1,
    bytes,
  })

  it('allows 64 messages, or 1 MiB, and opens again with each answer', () => {
    const window = new AckWindow()
    const lane = new Lane(0)
    for (let number = 1; number <= 64; number += 1) {
      expect(window.isOpen()).toBe(true)
      expect(window.nextNumber).toBe(number)
      window.add(lane, parcelOf(number, true, 100), 'id', 0)
    }
    expect(window.isOpen()).toBe(false)
    expect(window.take(17)?.number).toBe(17)
    expect(window.take(17)).toBe(null)
    expect(window.isOpen()).toBe(true)

    const large = new AckWindow()
    for (let number = 0; number < 16; number += 1) {
      expect(large.isOpen()).toBe(true)
      large.add(lane, parcelOf(number, true, 65_536), 'id', 0)
    }
    expect(large.isOpen()).toBe(false)
    large.take(1)
    expect(large.isOpen()).toBe(true)
  })

  it('holds a lane until its gathered message is answered, but not for a keyed one', () => {
    const window = new AckWindow()
    const [one, two] = [new Lane(0), new Lane(1)]
    window.add(one, parcelOf(1, false, 10), 'id', 0)
    window.add(two, parcelOf(2, true, 10), 'id', 0)
    expect([window.holds(one), window.holds(two)]).toEqual([true, false])
    window.take(2)
    expect([window.holds(one), window.holds(two)]).toEqual([true, false])
    window.take(1)
    expect(window.holds(one)).toBe(false)
  })

  it('does not hold a lane that can fill a message, and then holds it until all its messages are answered', () => {
    const window = new AckWindow()
    const lane = new Lane(0)
    window.add(lane, parcelOf(1, false, 10), 'id', 0)
    lane.push(entry(2, false, LIMIT_BYTES - 1))
    expect(window.holds(lane)).toBe(true)
    lane.push(entry(3, false, 1))
    expect(window.holds(lane)).toBe(false)
    window.add(lane, lane.take() as Parcel, 'id', 0)
    expect(window.holds(lane)).toBe(true)
    window.take(1)
    expect(window.holds(lane)).toBe(true)
    window.take(2)
    expect(window.holds(lane)).toBe(false)
  })

  it('is renewed without forgetting messages in flight, and late answers do not open it twice', () => {
    const window = new AckWindow()
    const lane = new Lane(0)
    for (let number = 1; number <= 64; number += 1) window.add(lane, parcelOf(number, number > 1, 10), 'id', 0)
    window.renew()
    expect(window.isOpen()).toBe(true)
    expect(window.holds(lane)).toBe(false)
    for (let number = 65; number <= 128; number += 1) window.add(lane, parcelOf(number, number > 65, 10), 'id', 0)
    expect(window.isOpen()).toBe(false)
    const late = window.take(1) as InFlight
    expect(window.isCurrent(late)).toBe(false)
    expect(window.isOpen()).toBe(false)
    expect(window.holds(lane)).toBe(true)
    expect(window.isCurrent(window.take(65) as InFlight)).toBe(true)
    expect(window.isOpen()).toBe(true)
    expect(window.holds(lane)).toBe(false)
  })

  it('expires each record at its own time, and forgets a message with its last record', () => {
    const window = new AckWindow()
    const lane = new Lane(0)
    for (const number of [10, 20, 30]) lane.push(entry(number, false, 100))
    window.add(lane, lane.take() as Parcel, 'id', 5)
    expect(window.takeExpired(9)).toBe(null)
    expect(window.takeExpired(25)?.entry.number).toBe(10)
    expect(window.takeExpired(25)?.entry.number).toBe(20)
    expect(window.takeExpired(25)).toBe(null)
    expect(numbersOf((window.take(1) as InFlight).first)).toEqual([30])
    window.add(lane, parcelOf(40, false, 100), 'id', 5)
    expect(window.takeExpired(40)?.message.number).toBe(2)
    expect(window.take(2)).toBe(null)
    expect(window.holds(lane)).toBe(false)
  })
})
