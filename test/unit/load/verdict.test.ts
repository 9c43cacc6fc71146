// What becomes of a run that judged nothing, that did not come to its end, or that the queue contradicts.

import { describe, expect, it } from 'vitest'
import { conclude, judge } from '../../../load/k6/shared/verdict.js'

const SENT = { 'http_reqs{kind:event}': { type: 'counter', values: { count: 5 } } }
const HELD = { verdict: 'HELD', reasons: [] } as const
const FAILED = { verdict: 'FAILED', reasons: ['checks: rate==1'] } as const
const VOID = { verdict: 'VOID', reasons: ['no 503'] } as const

const rate = (passes: number, fails: number, rule = 'rate==1') => ({
  type: 'rate',
  values: { rate: passes / (passes + fails) || 0, passes, fails },
  // So k6 has it: a rule holds where there is nothing that it could be broken by.
  thresholds: { [rule]: { ok: fails === 0 } },
})
const trend = (count: number, rule = 'p(99)<50') => ({
  type: 'trend',
  values: { count, 'p(99)': 0 },
  thresholds: { [rule]: { ok: true } },
})

describe('a run that judged nothing', () => {
  it('is void, and names each rate and trend without a sample', () => {
    const metrics = { ...SENT, obeyed: rate(0, 0), quick: trend(0), checks: rate(5, 0) }
    expect(judge({ metrics })).toEqual({
      verdict: 'VOID',
      reasons: ['obeyed: there was nothing to judge', 'quick: there was nothing to judge'],
    })
    expect(judge({ metrics: { ...SENT, obeyed: rate(1, 0), quick: trend(1) } })).toEqual(HELD)
  })

  it('may have figures without samples that are only shown, and counters that stayed at nothing', () => {
    const wrong = { type: 'counter', values: { count: 0 }, thresholds: { 'count==0': { ok: true } } }
    const metrics = { ...SENT, shown: rate(0, 0, 'rate>=0'), drawn: trend(0, 'max>=0'), wrong }
    expect(judge({ metrics })).toEqual(HELD)
  })

  it('has failed all the same where something else broke', () => {
    const { verdict, reasons } = judge({ metrics: { ...SENT, obeyed: rate(0, 0), available: rate(1, 4) } })
    expect(verdict).toBe('FAILED')
    expect(reasons).toEqual(['available: rate==1', 'obeyed: there was nothing to judge'])
  })

  it('is void where it did not get to all that the script wanted', () => {
    expect(judge({ metrics: SENT }, { unmet: ['3 were cut off'] })).toEqual({
      verdict: 'VOID',
      reasons: ['3 were cut off'],
    })
    expect(judge({ metrics: SENT }, { unmet: ['3 were cut off'], failures: ['twice'] }).verdict).toBe('FAILED')
  })
})

describe('what was found beside k6', () => {
  it('leaves a verdict as it is where nothing was found', () => {
    for (const judgement of [HELD, FAILED, VOID]) expect(conclude(judgement, {})).toEqual(judgement)
  })

  it('fails a run that held and one that was void, with the first of many faults as reasons', () => {
    const faults = ['a', 'b', 'c', 'd', 'e']
    expect(conclude(HELD, { faults })).toEqual({ verdict: 'FAILED', reasons: ['a', 'b', 'c', 'and 2 more'] })
    expect(conclude(VOID, { faults: ['a'] })).toEqual({ verdict: 'FAILED', reasons: ['a', 'no 503'] })
    expect(conclude(FAILED, { faults: ['a'] })).toEqual({ verdict: 'FAILED', reasons: ['a', 'checks: rate==1'] })
  })

  it('makes what held void where it could not be looked at, and leaves a failure', () => {
    const voids = ['the queue was not read']
    expect(conclude(HELD, { voids })).toEqual({ verdict: 'VOID', reasons: voids })
    expect(conclude(FAILED, { voids })).toEqual({ verdict: 'FAILED', reasons: ['checks: rate==1', ...voids] })
  })

  it('says nothing of a run that did not come to its end', () => {
    const interruption = 'the run was interrupted'
    expect(conclude(HELD, { interruption })).toEqual({ verdict: 'VOID', reasons: [interruption] })
    // What is missing may be missing because of it.
    expect(conclude(FAILED, { interruption, faults: ['a'] })).toEqual({
      verdict: 'VOID',
      reasons: [interruption, 'checks: rate==1'],
    })
  })
})
