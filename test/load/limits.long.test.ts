// The script `limits`, run for real. In a file of its own, beside the others, since it waits for the end of a minute.

import { expect, test } from 'vitest'
import { needK6, reportOf, runLoad } from '../support/k6.ts'

/** The wait for the end of a minute, and the run. */
const TIMEOUT_MS = 180_000
/** The end of one window and the beginning of the next. */
const SHORT = { WINDOWS: '0', EVENTS_PER_MINUTE: '300' }

test('an app at many times its plan gets its plan in each window, and its client can obey what it is told', {
  timeout: TIMEOUT_MS,
}, async (context) => {
  needK6(context)
  const run = await runLoad('limits', SHORT)
  const report = reportOf(run)
  expect(report, run.output).toMatchObject({ verdict: 'HELD', found: { accepted: [300, 300] }, nodeAgrees: true })
  expect(report.verified?.lines).toContain('load-limits-greedy: 600 events in the queue, 300 + 300 by minute')
  expect(report.outcomes.map(({ code }) => code)).toEqual(
    expect.arrayContaining(['rate_limit_exceeded', 'daily_limit_exceeded', 'monthly_limit_exceeded']),
  )
  expect(run.code).toBe(0)
})
