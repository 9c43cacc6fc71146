// @ts-check
// The shared limits by themselves: many apps on two nodes, each take a call to Redis or a part of one.

import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { LOAD_CORE, SERVER_CORE, start } from './processes.js'
import { ensurePrograms, startRedis } from './programs.js'
import { number, table } from './report.js'

const NODE = fileURLToPath(new URL('limits-node.js', import.meta.url))
const NODES = 2
const WARM_POLL_MS = 20

/** @typedef {{ takes: number, refused: number, failed: number, outages: number, calls: number, p50Ms: number, p99Ms: number, maxMs: number }} NodeResult */

/** @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function limits(options) {
  ensurePrograms(['redis-server'])
  const seconds = options.quick ? 3 : 15
  const cases = [
    { apps: 1000, perSecond: 10_000 },
    { apps: 4000, perSecond: 10_000 },
    { apps: 20_000, perSecond: 10_000 },
    { apps: 20_000, perSecond: 20_000 },
  ]
  const results = []
  for (const one of cases) {
    options.progress(`limits: ${one.apps} apps, ${one.perSecond} checks/s`)
    results.push({ ...one, ...(await measure(one, seconds)) })
  }
  const head = [
    'apps, checks /s on 2 nodes',
    'done /s',
    'Redis µs a check',
    'checks a call',
    'p50 ms',
    'p99 ms',
    'max ms',
  ]
  const rows = results.map((result) => [
    `${number(result.apps)} at ${number(result.perSecond)}`,
    number(result.takes / seconds),
    number(result.redisUs, 1),
    number(result.takes / result.calls, 1),
    number(result.p50Ms, 2),
    number(result.p99Ms, 2),
    number(result.maxMs, 1),
    number(result.outages + result.failed),
  ])
  const title = `Limits in Redis: checks of 1 event at a fixed rate for ${seconds} s, without HTTP and queue; latency from when each was due`
  return { numbers: results, text: table(title, [...head, 'outages and failures'], rows, options) }
}

/** @param {{ apps: number, perSecond: number }} load @param {number} seconds */
async function measure({ apps, perSecond }, seconds) {
  const redis = await startRedis()
  try {
    const nodes = Array.from({ length: NODES }, (_, at) => {
      const args = [redis.url, apps, perSecond / NODES, seconds].map(String)
      return start(at === 0 ? SERVER_CORE : LOAD_CORE, [process.execPath, NODE, ...args])
    })
    while (!nodes.every(({ output, exit }) => output() !== '' || exit() !== null)) await sleep(WARM_POLL_MS)
    const before = redis.cpuSeconds()
    await Promise.all(nodes.map(({ exited }) => exited))
    const redisSeconds = redis.cpuSeconds() - before
    /** @type {NodeResult[]} */
    const heard = nodes.map(({ output }) => JSON.parse(output().split('\n')[1]))
    const sum = (/** @type {keyof NodeResult} */ name) => heard.reduce((total, result) => total + result[name], 0)
    const most = (/** @type {keyof NodeResult} */ name) => Math.max(...heard.map((result) => result[name]))
    return {
      takes: sum('takes'),
      refused: sum('refused'),
      failed: sum('failed'),
      outages: sum('outages'),
      calls: sum('calls'),
      redisUs: (redisSeconds * 1e6) / sum('takes'),
      p50Ms: most('p50Ms'),
      p99Ms: most('p99Ms'),
      maxMs: most('maxMs'),
    }
  } finally {
    await redis.stop()
  }
}
