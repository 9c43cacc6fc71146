// @ts-check
// What the nodes themselves say, over their admin ports: read at the start and the end of a run, and by scripts on the way.

import http from 'k6/http'
import { Gauge } from 'k6/metrics'
import { outcomesOf, parsePage } from './metrics-page.js'
import { checkTarget } from './target.js'

const TIMEOUT = '5s'

/** How many requests the nodes counted in this run, by the tag `code`. */
const nodeOutcomes = new Gauge('node_outcomes')

/** @typedef {import('./settings.js').Settings} Settings */
/** @typedef {import('./metrics-page.js').Series} Series */
/** @typedef {{ outcomes: Record<string, number> | null }} Begun */

/** What a node's metrics say, or null where it did not answer. @param {string} adminUrl @returns {Series[] | null} */
export function readNode(adminUrl) {
  const response = http.get(`${adminUrl}/metrics`, { timeout: TIMEOUT, tags: { kind: 'metrics' } })
  return response.status === 200 && typeof response.body === 'string' ? parsePage(response.body) : null
}

/** Every node's series in one list, or null where an admin port was not named or did not answer. @param {Settings} settings @returns {Series[] | null} */
export function readNodes({ adminUrls }) {
  const pages = adminUrls.map(readNode)
  return pages.length === 0 || pages.includes(null) ? null : pages.flatMap((page) => page ?? [])
}

/** For `setup`: the service is there, and this is what it had counted before. @param {Settings} settings @returns {Begun} */
export function begin(settings) {
  checkTarget(settings)
  const page = readNodes(settings)
  return { outcomes: page === null ? null : outcomesOf(page) }
}

/** For `teardown`: hands what the nodes counted since to the summary. @param {Settings} settings @param {Begun} begun */
export function end(settings, { outcomes: before }) {
  const page = before === null ? null : readNodes(settings)
  if (page === null || before === null) return
  for (const [code, count] of Object.entries(outcomesOf(page))) nodeOutcomes.add(count - (before[code] ?? 0), { code })
}

/** What every script exports for k6 to call before and after. @param {Settings} settings */
export function aroundRun(settings) {
  return { setup: () => begin(settings), teardown: (/** @type {Begun} */ begun) => end(settings, begun) }
}
