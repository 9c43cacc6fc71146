// @ts-check
// Beside the script `retries`: freezes the local node now and then for longer than its clients wait, and keeps what they write down.

import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { NOTES_FILE } from '../verify-retries.js'

const FIRST_AFTER_MS = 1500
const EVERY_MS = 2500
const FREEZE_MS = 1000

/** @type {import('../beside.js').Beside} */
export const beside = {
  // k6 would say of each lost answer that it was lost.
  k6Arguments: ({ out }) => ['--console-output', join(out, NOTES_FILE), '--log-format', 'raw', '--log-output', 'none'],
  during: freezeNowAndThen,
}

/** @param {import('../beside.js').Surroundings} surroundings @param {AbortSignal} signal @returns {Promise<number | null>} how often; null: there is no node to freeze */
async function freezeNowAndThen({ node }, signal) {
  if (node === null) return null
  let times = 0
  for (let waitMs = FIRST_AFTER_MS; await waits(waitMs, signal); waitMs = EVERY_MS) {
    process.kill(node.pid, 'SIGSTOP')
    times++
    await waits(FREEZE_MS, signal)
    process.kill(node.pid, 'SIGCONT')
  }
  return times
}

/** False once the signal has come. @param {number} ms @param {AbortSignal} signal */
function waits(ms, signal) {
  return sleep(ms, undefined, { signal }).then(
    () => true,
    () => false,
  )
}
