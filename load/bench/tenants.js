// @ts-check
// Whether a tenant can make another's bodies cost more, by what it sends to the decoder that both share.

import { fileURLToPath } from 'node:url'
import { NEIGHBOURS } from './neighbours.js'
import { LOAD_CORE, run } from './processes.js'
import { median, number, table } from './report.js'

const DECODE = fileURLToPath(new URL('tenants-decode.js', import.meta.url))

/** @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function tenants(options) {
  options.progress('decoding beside another tenant')
  const output = await run(LOAD_CORE, [process.execPath, DECODE, ...(options.quick ? ['5', '300'] : ['15', '600'])])
  /** @type {{ events: number, body: string, us: Record<string, number[]> }[]} */
  const results = JSON.parse(output)
  const rows = results.flatMap(({ events, body, us }) =>
    Object.keys(NEIGHBOURS).map((name) => [
      `${events} event${events > 1 ? 's' : ''}, ${body}`,
      name,
      number(median(us[name]), 2),
      ratio(us[name], us.alone),
      ratio(us[name], us['one layout']),
      ratio(us[name], us[`${name}, apart`]),
    ]),
  )
  const head = ['body', 'the other sends', 'µs', 'to alone', 'to one layout', 'to layouts not shared']
  const title =
    "Decoding beside another tenant: time of one tenant's body, each behind another tenant's of 100 events; medians, and the middle half of the rounds"
  return { numbers: results, text: table(title, head, rows, options) }
}

/** With the middle half of the rounds. @param {number[]} upper @param {number[]} lower */
function ratio(upper, lower) {
  const ratios = upper.map((value, index) => value / lower[index]).sort((a, b) => a - b)
  const at = (/** @type {number} */ share) => number(ratios[Math.floor(ratios.length * share)], 2)
  return `${number(median(ratios), 2)} (${at(0.25)} to ${at(0.75)})`
}
