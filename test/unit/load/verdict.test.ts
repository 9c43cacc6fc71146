// The one verdict of a run: by its own figures, and by what the check of the queue found. test/load closes real ones.

import { describe, expect, it } from 'vitest'
import { conclude } from '../../../load/k6/shared/verdict.js'

describe('a verdict', () => {
  const HELD = { verdict: 'HELD', reasons: [] } as const
  const FAILED = { verdict: 'FAILED', reasons: ['checks: rate==1'] } as const
  const VOID = { verdict: 'VOID', reasons: ['no 503'] } as const

  it.each([
    ['is what it was where nothing was found', HELD, {}, HELD],
    [
      'fails by what the queue shows',
      HELD,
      { faults: ['a', 'b', 'c', 'd', 'e'] },
      ['FAILED', 'a', 'b', 'c', 'and 2 more'],
    ],
    ['fails by it in a void run too', VOID, { faults: ['a'] }, ['FAILED', 'a', 'no 503']],
    ['is void where the queue was not read', HELD, { voids: ['not read'] }, ['VOID', 'not read']],
    ['stays a failure there', FAILED, { voids: ['not read'] }, ['FAILED', 'checks: rate==1', 'not read']],
    ['is void of half a run', FAILED, { interruption: 'half', faults: ['a'] }, ['VOID', 'half', 'checks: rate==1']],
  ])('%s', (_, judgement, found, expected) => {
    const { verdict, reasons } = conclude(judgement, found)
    expect([verdict, ...reasons]).toEqual('verdict' in expected ? [expected.verdict] : expected)
  })
})
