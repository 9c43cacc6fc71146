// @ts-check
// Whether a tenant can make another's bodies cost more, by what it sends to the decoder that both share.

import { counted } from './cases.js'
import { NEIGHBOURS } from './neighbours.js'
import { answerOf, LOAD_CORE } from './processes.js'
import { median, number, table } from './report.js'

const DECODE = new URL('tenants-decode.js', import.meta.url)
/** @param {import('./turns.js').Options} options @returns {Promise<import('./turns.js').Section>} */
export async function tenants(options) {
  options.progress('decoding beside another tenant')
  /** @type {{ events: number, body: string, us: Record<string, number[]> }[]} */
  const results = await answerOf(LOAD_CORE, DECODE, options.quick ? [5, 300] : [15, 600])
  const rows = results.flatMap(({ events, body, us }) =>
    Object.keys(NEIGHBOURS).map((other) => ({ events, body, us, other })),
  )
  const title =
    "Decoding beside another tenant: time of one tenant's body, each behind another tenant's of 100 events; medians, and the middle half of the rounds"
  const text = table(title, rows, options, [
    ['body', ({ events, body }) => `${counted(events, 'event')}, ${body}`],
    ['the other sends', ({ other }) => other],
    ['µs', ({ us, other }) => number(median(us[other]), 2)],
    ['to alone', ({ us, other }) => ratio(us[other], us.alone)],
    ['to one layout', ({ us, other }) => ratio(us[other], us['one layout'])],
    ['to layouts not shared', ({ us, other }) => ratio(us[other], us[`${other}, apart`])],
  ])
  return { numbers: results, text }
}

/** With the middle half of the rounds. @param {number[]} upper @param {number[]} lower */
function ratio(upper, lower) {
  const ratios = upper.map((value, index) => value / lower[index]).sort((a, b) => a - b)
  const at = (/** @type {number} */ share) => number(ratios[Math.floor(ratios.length * share)], 2)
  return `${number(median(ratios), 2)} (${at(0.25)} to ${at(0.75)})`
}
