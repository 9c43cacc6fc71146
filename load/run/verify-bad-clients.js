// @ts-check
// Judges what went on beside the script `bad-clients`: whether each bare socket ended as it must, whether memory stayed within its
// bound, and whether the queue has what was accepted and nothing else.

import { readRecords } from './queue-records.js'
import { RAW_CLIENTS } from './raw-clients.js'

const MEBIBYTE = 1_048_576
/** A pod with the same ring is killed at 512 MiB (deploy/base/deployment.yaml): an eighth below that. */
export const MOST_MEMORY_BYTES = 448 * MEBIBYTE

/** @typedef {import('./beside/bad-clients.js').BadClientsFound} BadClientsFound */

/** What is wrong with how the sockets ended and with the memory. @param {BadClientsFound} found @returns {string[]} */
export function faultsOfClients({ kinds, mostBytes }) {
  const faults = Object.keys(RAW_CLIENTS).flatMap((kind) => {
    const { right, wrong } = kinds[kind] ?? { right: 0, wrong: {} }
    const list = Object.entries(wrong).map(([ending, times]) => `${kind}: ${ending}, ${times} times`)
    return right + list.length === 0 ? [`${kind}: none came to its end`] : list
  })
  // A node whose page does not say what it has is not within its bound.
  if (!(mostBytes <= MOST_MEMORY_BYTES)) faults.push(`the node took ${Math.round(mostBytes / MEBIBYTE)} MiB of memory`)
  return faults
}

/** @param {import('./verify.js').Run} run @returns {Promise<import('./verify.js').Found>} */
export async function verify({ queue, dataDir, report, found }) {
  const seen = /** @type {BadClientsFound} */ (found)
  const faults = faultsOfClients(seen)
  const lines = Object.entries(seen.kinds).map(([kind, { right }]) => `${kind.padEnd(24)}${right} as they must`)
  const { firstBytes, mostBytes, looks } = seen
  if (looks > 0) {
    const [first, most] = [firstBytes, mostBytes].map((bytes) => Math.round(bytes / MEBIBYTE))
    lines.push(`memory of the node: ${first} MiB at first, ${most} MiB at most`)
  } else lines.push('memory of the node was not looked at: ADMIN_URL was not given')
  if (queue !== null && dataDir !== undefined) {
    const trickled = Object.entries(seen.kinds).filter(([kind]) => RAW_CLIENTS[kind].expected.includes(202))
    const accepted = outcome(report, 'accepted') + trickled.reduce((sum, [, { right }]) => sum + right, 0)
    let records = 0
    for await (const _ of readRecords(queue)) records++
    lines.push(`${records} records in the queue, ${accepted} requests accepted`)
    if (records !== accepted) faults.push('the queue has other than what was accepted')
  }
  return { lines, faults }
}

/** @param {import('./verify.js').Report} report @param {string} code @returns {number} */
function outcome({ outcomes }, code) {
  return outcomes.find((/** @type {{ code: string, sent: number }} */ each) => each.code === code)?.sent ?? 0
}
