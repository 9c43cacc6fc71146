// @ts-check
// More load than the service can carry: what it still accepts, how fast it refuses the rest, and when it is over.

import { casesOf } from './cases.js'
import { runPaced } from './pacing.js'
import { milliseconds, number, table } from './report.js'
import { startService } from './servers.js'
import { eachCase, withServers } from './turns.js'
import { runWrk } from './wrk.js'

/** Of the best rate. */
const TIMES = [2, 3]
/** Enough for that rate as long as an answer takes less than some tens of milliseconds. */
const CONNECTIONS = 2000
/** Half the best rate again: by then the last 503 has to be over, five seconds after the overload. */
const AFTER_SECONDS = 7
/** Smaller bodies cost a load in Node as much as the service: one core cannot send twice what another takes. */
const CASES = casesOf({ events: [100], varied: [false, true] })

/** @param {import('./turns.js').Options} options @returns {Promise<import('./turns.js').Section>} */
export async function overload(options) {
  const seconds = options.quick ? 3 : 8
  const results = await eachCase(options, CASES, (_kind, bodies) =>
    withServers({ service: startService }, async ({ service }) => {
      // Disks take more for some seconds than they do for long, and the best rate is what lasts.
      await runWrk(service, bodies, { keyed: false, seconds: options.quick ? 1 : 12 })
      const { perSecond: best } = await runWrk(service, bodies, { keyed: false, seconds: options.quick ? 1 : 3 })
      const runs = []
      for (const times of TIMES) {
        const phases = [
          { perSecond: best / 2, seconds: 1 },
          { perSecond: times * best, seconds },
          { perSecond: best / 2, seconds: AFTER_SECONDS },
        ]
        const paced = await runPaced(service, bodies, phases, { connections: CONNECTIONS })
        runs.push({ times, during: paced.phases[1], after: paced.phases[2] })
      }
      return { best, runs }
    }),
  )
  const rows = results.flatMap(({ name, best, runs }) => runs.map((run) => ({ name, best, ...run })))
  const title = `Overload: more than the best rate for ${seconds} s, one core, embedded queue, ${CONNECTIONS} connections`
  const text = table(title, rows, options, [
    ['request', ({ name, times }) => `${name}: ${times}×`],
    ['best /s', ({ best }) => number(best)],
    ['sent / best', ({ best, during }) => number((during.accepted.count + during.refused.count) / seconds / best, 2)],
    ['accepted / best', ({ best, during }) => `${number((100 * during.accepted.count) / seconds / best)}%`],
    ['503 /s', ({ during }) => number(during.refused.count / seconds)],
    ...refusalColumns,
  ])
  return { numbers: results, text }
}

/** How fast a 503 comes, and when there are no more of them. @type {import('./report.js').Column<Record<'during' | 'after', import('./pacing.js').PhaseResult>>[]} */
export const refusalColumns = [
  ['503 p50 ms', ({ during }) => milliseconds(during.refused.fromSentMs.p50)],
  ['503 p99 ms', ({ during }) => milliseconds(during.refused.fromSentMs.p99)],
  [
    'last 503, s after the load',
    ({ after }) => (after.refused.count === 0 ? 'none' : number(after.lastRefusedMs / 1000, 2)),
  ],
]
