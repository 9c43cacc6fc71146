// @ts-check
// Gives the node and k6 cores of their own, where a script wants them not to take time from each other.

import { spawnSync } from 'node:child_process'
import { allowedCores } from '../shared/cores.js'

/** @typedef {{ node: readonly string[], k6: readonly string[] }} Places what stands before their commands */

const NOWHERE = /** @type {Places} */ ({ node: [], k6: [] })

/** The node on the first core that this process may use, k6 on all the others. @param {boolean} isWanted @returns {Places} */
export function divideCores(isWanted) {
  if (!isWanted) return NOWHERE
  if (process.platform !== 'linux' || spawnSync('taskset', ['--version']).error !== undefined) {
    console.log('PIN: without taskset, which is on Linux, the node and k6 share their cores')
    return NOWHERE
  }
  const [first, ...others] = allowedCores()
  if (others.length === 0) {
    console.log('PIN: there is one core only, and k6 shares it with the node')
    return NOWHERE
  }
  return { node: ['taskset', '-c', String(first)], k6: ['taskset', '-c', others.join(',')] }
}
