// @ts-check
// More load than the service can carry: what it still accepts, how fast it refuses the rest, and when it is over.

import { nameOf, SEED } from './cases.js'
import { runPaced } from './pacing.js'
import { number, table } from './report.js'
import { startService } from './servers.js'
import { runWrk, writeBodies } from './wrk.js'

/** Of the best rate. */
const TIMES = [2, 3]
/** Enough for that rate as long as an answer takes less than some tens of milliseconds. */
const CONNECTIONS = 2000
/** Half the best rate again: by then the last 503 has to be over, five seconds after the overload. */
const AFTER_SECONDS = 7

/** @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function overload(options) {
  const seconds = options.quick ? 3 : 8
  const results = []
  // Smaller bodies cost a load in Node as much as the service: one core cannot send twice what another takes.
  for (const kind of [false, true].map((varied) => ({ events: /** @type {const} */ (100), keyed: false, varied }))) {
    options.progress(`overload: ${nameOf(kind)}`)
    const bodies = await writeBodies(options.folder, kind, SEED)
    const service = await startService()
    // Disks take more for some seconds than they do for long, and the best rate is what lasts.
    await runWrk(service, bodies, { keyed: false, seconds: options.quick ? 1 : 12 })
    const best = await runWrk(service, bodies, { keyed: false, seconds: options.quick ? 1 : 3 })
    const half = best.perSecond / 2
    for (const times of TIMES) {
      const phases = [
        { perSecond: half, seconds: 1 },
        { perSecond: times * best.perSecond, seconds },
        { perSecond: half, seconds: AFTER_SECONDS },
      ]
      const paced = await runPaced(service, bodies, { phases, connections: CONNECTIONS })
      results.push({ kind, times, best: best.perSecond, during: paced.phases[1], after: paced.phases[2] })
    }
    await service.stop()
  }
  const head = [
    'request',
    'best /s',
    'sent / best',
    'accepted / best',
    '503 /s',
    '503 p50 ms',
    '503 p99 ms',
    'last 503, s after the load',
  ]
  const rows = results.map(({ kind, times, best, during, after }) => {
    const { accepted, refused } = during
    const perSecond = (/** @type {number} */ count) => count / during.seconds
    const milliseconds = (/** @type {number | null} */ value) => (value === null ? '–' : number(value, 1))
    return [
      `${nameOf(kind)}: ${times}×`,
      number(best),
      number(perSecond(accepted.count + refused.count) / best, 2),
      `${number((100 * perSecond(accepted.count)) / best)}%`,
      number(perSecond(refused.count)),
      milliseconds(refused.fromSentMs.p50),
      milliseconds(refused.fromSentMs.p99),
      after.refused.count === 0 ? 'none' : number(after.lastRefusedMs / 1000, 2),
    ]
  })
  const title = `Overload: more than the best rate for ${seconds} s, one core, embedded queue, ${CONNECTIONS} connections`
  return { numbers: results, text: table(title, head, rows, options) }
}
