// @ts-check
// Node's two clients: each connection carries a batch, is silent for a while, and carries another. Prints how many of the
// second ones were lost. Usage: node client.js fetch|http|http-timeout JOB

import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { uniformBody } from '../payloads.js'

const [kind, text] = process.argv.slice(2)
/** @type {{ url: string, appKey: string, connections: number, startMs: number, leastMs: number, mostMs: number }} */
const job = JSON.parse(text)
const headers = { 'Content-Type': 'application/json' }

const batch = () => uniformBody({ rng: Math.random, appKey: job.appKey, events: 1, nowMs: Date.now() })

/** Keeps its connections in a pool that all requests of a process share. */
async function byFetch() {
  const answer = await fetch(job.url, { method: 'POST', headers, body: batch() })
  await answer.text()
  return answer.status
}

/** @param {Agent} agent @returns {Promise<number>} */
function byHttp(agent) {
  return new Promise((resolve, reject) => {
    const sent = request(job.url, { method: 'POST', headers, agent }, (answer) => {
      answer.resume().once('end', () => resolve(answer.statusCode ?? 0))
    })
    sent.once('error', reject)
    sent.end(batch())
  })
}

let lost = 0
await Promise.all(
  Array.from({ length: job.connections }, async () => {
    // One for each connection: of a pool, only the connection that was used last would be used again.
    const agent = new Agent({ keepAlive: true, ...(kind === 'http-timeout' ? { timeout: 60_000 } : {}) })
    const post = () => (kind === 'fetch' ? byFetch() : byHttp(agent))
    await sleep(Math.random() * job.startMs)
    if ((await post()) !== 202) throw new Error('the first batch was not accepted')
    await sleep(job.leastMs + Math.random() * (job.mostMs - job.leastMs))
    const status = await post().catch(() => 0)
    if (status !== 202) lost += 1
  }),
)
console.log(lost)
process.exit()
