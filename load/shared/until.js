// @ts-check
// Waiting for what is meant, for no longer than it may take.

import { setTimeout as sleep } from 'node:timers/promises'

const POLL_MS = 50

/** Resolves with whether it came to be so in time. @param {() => boolean | Promise<boolean>} isSo @param {number} timeoutMs @param {number} [pollMs] @returns {Promise<boolean>} */
export async function cameTrue(isSo, timeoutMs, pollMs = POLL_MS) {
  for (const deadlineMs = performance.now() + timeoutMs; ; await sleep(pollMs)) {
    if (await isSo()) return true
    if (performance.now() > deadlineMs) return false
  }
}
