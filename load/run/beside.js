// @ts-check
// What goes on beside k6 for the scripts that want more than requests (load/run/beside/NAME.js): clients that k6
// cannot be, and a node that freezes.

import { existsSync } from 'node:fs'

/** @typedef {Readonly<Record<string, string>>} Environment */
/**
 * @typedef {object} Surroundings
 * @property {readonly string[]} baseUrls
 * @property {import('./node.js').LocalNode | null} node null: the service is elsewhere
 * @property {Environment} environment of k6
 * @property {string} out folder of the report
 */
/**
 * @typedef {object} Beside
 * @property {(surroundings: Surroundings) => readonly string[]} [k6Arguments]
 * @property {(surroundings: Surroundings, signal: AbortSignal) => Promise<unknown>} [during] from k6's start to its end, when `signal` says so;
 *   what it resolves with is for load/run/verify-NAME.js
 */

/** @param {string} name @returns {Promise<Beside>} */
export async function findBeside(name) {
  const file = new URL(`beside/${name}.js`, import.meta.url)
  if (!existsSync(file)) return {}
  const { beside } = await import(file.href)
  return beside
}

/**
 * Runs `task` and, beside it, what the script wants; resolves with what came of both. `trouble`: why what went on beside it
 * ended by itself, or ''; the task is done all the same, and has its own say.
 * @template T @param {Beside} beside @param {Surroundings} surroundings @param {() => Promise<T>} task
 * @returns {Promise<{ result: T, found: unknown, trouble: string }>}
 */
export async function withBeside({ during }, surroundings, task) {
  if (during === undefined) return { result: await task(), found: null, trouble: '' }
  const over = new AbortController()
  const going = during(surroundings, over.signal).then(
    (found) => ({ found, trouble: '' }),
    (/** @type {unknown} */ error) => ({ found: null, trouble: `what goes on beside k6 broke off: ${String(error)}` }),
  )
  try {
    const result = await task()
    over.abort()
    return { result, ...(await going) }
  } finally {
    over.abort()
  }
}
