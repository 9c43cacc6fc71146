// @ts-check
// The records of the queue that a run filled, through `sluice tail`: a local node's journal, or for a service
// elsewhere the stream at NATS_URL (with REDIS_URL, as for the service) or the journal in SLUICE_DATA_DIR.

import { spawn } from 'node:child_process'
import { MAIN } from '../../test/support/processes.js'
import { linesOf } from '../shared/lines.js'

/** Why a run is void that asks about the queue, where nobody said which. */
export const NOT_READ = 'the queue was not read: NATS_URL or SLUICE_DATA_DIR names it'

/**
 * @typedef {object} QueueRecord
 * @property {string} batch_id
 * @property {string} app_id
 * @property {string} received_at
 * @property {readonly { type: string }[]} events
 */

/**
 * What names the queue to `sluice tail`; null: nothing does.
 * @param {string | undefined} dataDir of a local node @param {Readonly<Record<string, string | undefined>>} environment
 * @returns {Readonly<Record<string, string>> | null}
 */
export function queueOf(dataDir, environment) {
  if (dataDir !== undefined) return { SLUICE_DATA_DIR: dataDir }
  const { NATS_URL: natsUrl = '', REDIS_URL: redisUrl = '', SLUICE_DATA_DIR: named = '' } = environment
  if (natsUrl !== '') return { NATS_URL: natsUrl, REDIS_URL: redisUrl }
  return named === '' ? null : { SLUICE_DATA_DIR: named }
}

/** Every record that is there now. Throws where the queue cannot be read. @param {Readonly<Record<string, string>>} queue @returns {AsyncGenerator<QueueRecord>} */
export async function* readRecords(queue) {
  const args = [MAIN, 'tail', '--records', '--from-start', '--no-follow']
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env.PATH, ...queue },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let complaints = ''
  child.stderr.setEncoding('utf8').on('data', (text) => (complaints += text))
  const ended = new Promise((/** @type {(code: number | null) => void} */ done) => child.once('close', done))
  try {
    for await (const line of linesOf(child.stdout)) yield JSON.parse(line)
    const code = await ended
    if (code !== 0) throw new Error(`sluice tail ended with ${code}: ${complaints}`)
  } finally {
    child.kill()
  }
}
