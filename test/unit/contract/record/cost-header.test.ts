// The header with the costs of a message.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CostText, parseCosts, type RecordCost } from '../../../../src/contract/record/cost-header.ts'

const NOW_MINUTE = 29_000_000
const CYCLE_MINUTE = NOW_MINUTE - 1000

const WORD = 'ABCXYZabcxyz0189_-'
const anAppId = fc
  .array(fc.constantFrom(...WORD.split('')), { minLength: 1, maxLength: 64 })
  .map((letters) => letters.join(''))
const aCost: fc.Arbitrary<RecordCost> = fc.record({
  minute: fc.integer({ min: NOW_MINUTE - 3, max: NOW_MINUTE + 60 }),
  cycleMinute: fc.constantFrom(CYCLE_MINUTE, NOW_MINUTE - 32 * 1440 + 61, NOW_MINUTE - 5),
  appId: fc.oneof(fc.constantFrom('one', 'two'), anAppId),
  events: fc.integer({ min: 1, max: 100 }),
})

function textOf(costs: readonly RecordCost[]): string {
  const text = new CostText()
  for (const cost of costs) text.add(cost)
  return text.toString()
}

/** Events by minute, cycle and app. */
function sums(costs: readonly RecordCost[]): Record<string, number> {
  const found: Record<string, number> = {}
  for (const { minute, cycleMinute, appId, events } of costs) {
    const label = `${minute} ${cycleMinute} ${appId}`
    found[label] = (found[label] ?? 0) + events
  }
  return found
}

describe('the header Sluice-Cost', () => {
  it('has the cost of every record', () => {
    fc.assert(
      fc.property(fc.array(aCost, { minLength: 1, maxLength: 50 }), (costs) => {
        const parsed = parseCosts(textOf(costs))
        expect(sums(parsed ?? [])).toEqual(sums(costs))
      }),
    )
  })

  it('writes a run of records of one app once, and starts a new run with another minute, cycle or app', () => {
    const cost = { minute: NOW_MINUTE, cycleMinute: CYCLE_MINUTE, appId: 'one', events: 1 }
    const start = `${NOW_MINUTE} ${CYCLE_MINUTE} one`
    expect(textOf([cost, { ...cost, events: 100 }, cost])).toBe(`${start} 1 100 1`)
    expect(textOf([cost, { ...cost, appId: 'two' }, cost])).toBe(
      `${start} 1, ${NOW_MINUTE} ${CYCLE_MINUTE} two 1, ${start} 1`,
    )
    expect(textOf([cost, { ...cost, minute: NOW_MINUTE + 1 }])).toBe(
      `${start} 1, ${NOW_MINUTE + 1} ${CYCLE_MINUTE} one 1`,
    )
    expect(textOf([cost, { ...cost, cycleMinute: CYCLE_MINUTE + 1 }])).toBe(
      `${start} 1, ${NOW_MINUTE} ${CYCLE_MINUTE + 1} one 1`,
    )
  })

  const start = `${NOW_MINUTE} ${CYCLE_MINUTE}`
  const wrong: Readonly<Record<string, string>> = {
    'is empty': '',
    'has no events': `${start} one`,
    'has no app': `${start} 1`,
    'has an app id with a letter that none has': `${start} o*e 1`,
    'has an app id with a letter that is not ASCII': `${start} oné 1`,
    'has an app id of 65 letters': `${start} ${'a'.repeat(65)} 1`,
    'has a batch of 0 events': `${start} one 1 0`,
    'has a batch of 101 events': `${start} one 101`,
    'has a batch of 1000 events': `${start} one 1000`,
    'has events below 0': `${start} one -1`,
    'has a fraction': `${start} one 1.5`,
    'has an exponent': `${start} one 1e1`,
    'is of a minute of eleven digits': `${'9'.repeat(11)} ${CYCLE_MINUTE} one 1`,
    'has a cycle that begins after the minute': `${NOW_MINUTE} ${NOW_MINUTE + 1} one 1`,
    'has a cycle that began more than 32 days before': `${NOW_MINUTE} ${NOW_MINUTE - 32 * 1440 - 1} one 1`,
    'has two blanks': `${start}  one 1`,
    'begins with a blank': ` ${start} one 1`,
    'ends with a blank': `${start} one 1 `,
    'ends with a comma': `${start} one 1,`,
    'has a run without a blank before it': `${start} one 1,${start} two 1`,
    'has an empty run': `${start} one 1, , ${start} two 1`,
    'has a line end': `${start} one 1\n`,
    'has a second run that is wrong': `${start} one 1, ${start} two 0`,
  }
  it.each(Object.entries(wrong))('is invalid where it %s', (_, text) => {
    expect(parseCosts(text)).toBe(null)
  })

  it('is never found in random text, and parsing never throws', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const costs = parseCosts(text)
        if (costs !== null) expect(text).toMatch(/^\d+ \d+ \S+ \d/)
      }),
    )
  })

  it('may have 10,000 records, in one run or in many', () => {
    const records = Array.from({ length: 10_000 }, () => {
      return { minute: NOW_MINUTE, cycleMinute: CYCLE_MINUTE, appId: 'one', events: 100 }
    })
    expect(parseCosts(textOf(records))).toEqual([{ ...records[0], events: 1_000_000 }])
    const [{ minute, cycleMinute, events }] = records
    const ofMany = records.map((_, at) => ({ minute, cycleMinute, appId: `app-${at}`, events }))
    expect(parseCosts(textOf(ofMany))).toEqual(ofMany)
    expect(parseCosts(`${textOf(ofMany)} 0`)).toBe(null)
  })
})
