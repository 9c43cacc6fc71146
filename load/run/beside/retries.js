// @ts-check
// Beside the script `retries`: freezes the local node now and then for longer than its clients wait, with so much before its
// door that it answers some of them 503 when it wakes, and keeps what the script writes down.

import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { LOG_FILE } from '../k6.js'
import { NOTES_FILE } from '../verify-retries.js'

const FIRST_AFTER_MS = 1500
const EVERY_MS = 2500
const FREEZE_MS = 1000
const AFTER_MS = 300
/** Together far more than the ring that the node has for this script; each fits into its socket's buffer, so that it is there at once. */
const CROWD = 300
const CROWD_BODY_BYTES = 50_000
/** Of an app that may not send: its bodies take room, and never come into the queue. */
const CROWD_KEY = 'ak_load_canceled'

/** @type {import('../beside.js').Beside} */
export const beside = {
  k6Arguments({ out }) {
    const notes = join(out, NOTES_FILE)
    // k6 would go on with those of an earlier run.
    rmSync(notes, { force: true })
    // On the terminal it would also say of each lost answer that it was lost.
    return ['--console-output', notes, '--log-format', 'raw', '--log-output', `file=${join(out, LOG_FILE)},level=error`]
  },
  during: freezeNowAndThen,
}

/** @param {import('../beside.js').Surroundings} surroundings @param {AbortSignal} signal @returns {Promise<number | null>} how often; null: there is no node to freeze */
async function freezeNowAndThen({ node }, signal) {
  if (node === null) return null
  let times = 0
  for (let waitMs = FIRST_AFTER_MS; await waits(waitMs, signal); waitMs = EVERY_MS) {
    const crowd = await openAll(node.baseUrl)
    process.kill(node.pid, 'SIGSTOP')
    times++
    for (const socket of crowd) socket.write(crowdRequest)
    await waits(FREEZE_MS, signal)
    process.kill(node.pid, 'SIGCONT')
    await waits(AFTER_MS, signal)
    for (const socket of crowd) socket.destroy()
  }
  return times
}

/** @param {string} baseUrl */
function openAll(baseUrl) {
  const { hostname: host, port } = new URL(baseUrl)
  const opened = Array.from({ length: CROWD }, async () => {
    const socket = connect({ host, port: Number(port) })
    socket.on('error', () => {})
    // Each sends the next as soon as it has its answer, so that the ring stays full for a while.
    socket.on('data', () => socket.write(crowdRequest))
    await once(socket, 'connect')
    return socket
  })
  return Promise.all(opened)
}

const crowdBody = JSON.stringify({ app_key: CROWD_KEY, events: [] }).padEnd(CROWD_BODY_BYTES)
const crowdRequest = [
  'POST /api/v1/events HTTP/1.1',
  'Host: sluice',
  'Content-Type: application/json',
  `Content-Length: ${CROWD_BODY_BYTES}`,
  '',
  crowdBody,
].join('\r\n')

/** False once the signal has come. @param {number} ms @param {AbortSignal} signal */
function waits(ms, signal) {
  return sleep(ms, undefined, { signal }).then(
    () => true,
    () => false,
  )
}
