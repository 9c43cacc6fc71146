// @ts-check
// The shared limits by themselves: many apps on two nodes, each take a call to Redis or a part of one.

import { fileURLToPath } from 'node:url'
import { cameTrue } from '../shared/until.js'
import { LOAD_CORE, SERVER_CORE, start } from './processes.js'
import { ensurePrograms, startRedis } from './programs.js'
import { number, table } from './report.js'

const NODE = fileURLToPath(new URL('limits-node.js', import.meta.url))
const NODES = 2
const WARM_MS = 60_000
const CASES = [
  { apps: 1000, perSecond: 10_000 },
  { apps: 4000, perSecond: 10_000 },
  { apps: 20_000, perSecond: 10_000 },
  { apps: 20_000, perSecond: 20_000 },
]

/** @typedef {{ takes: number, refused: number, failed: number, outages: number, calls: number, p50Ms: number, p99Ms: number, maxMs: number }} NodeResult */

/** @param {import('./turns.js').Options} options @returns {Promise<import('./turns.js').Section>} */
export async function limits(options) {
  ensurePrograms(['redis-server'])
  const seconds = options.quick ? 3 : 15
  const results = []
  for (const one of CASES) {
    options.progress(`limits: ${one.apps} apps, ${one.perSecond} checks/s`)
    results.push({ ...one, ...(await measure(one, seconds)) })
  }
  const title = `Limits in Redis: checks of 1 event at a fixed rate for ${seconds} s, without HTTP and queue; latency from when each was due`
  const text = table(title, results, options, [
    [`apps, checks /s on ${NODES} nodes`, ({ apps, perSecond }) => `${number(apps)} at ${number(perSecond)}`],
    ['done /s', ({ takes }) => number(takes / seconds)],
    ['Redis µs a check', ({ redisUs }) => number(redisUs, 1)],
    ['checks a call', ({ takes, calls }) => number(takes / calls, 1)],
    ['p50 ms', ({ p50Ms }) => number(p50Ms, 2)],
    ['p99 ms', ({ p99Ms }) => number(p99Ms, 2)],
    ['max ms', ({ maxMs }) => number(maxMs, 1)],
    ['outages and failures', ({ outages, failed }) => number(outages + failed)],
  ])
  return { numbers: results, text }
}

/** @param {{ apps: number, perSecond: number }} load @param {number} seconds */
async function measure({ apps, perSecond }, seconds) {
  const redis = await startRedis()
  try {
    const nodes = Array.from({ length: NODES }, (_, at) => {
      const args = [redis.url, apps, perSecond / NODES, seconds].map(String)
      return start(at === 0 ? SERVER_CORE : LOAD_CORE, [process.execPath, NODE, ...args])
    })
    await cameTrue(() => nodes.every(({ output, exit }) => output() !== '' || exit() !== null), WARM_MS)
    const before = redis.cpuSeconds()
    await Promise.all(nodes.map(({ exited }) => exited))
    const redisSeconds = redis.cpuSeconds() - before
    /** @type {NodeResult[]} */
    const heard = nodes.map(({ output }) => JSON.parse(output().split('\n')[1]))
    const of = (/** @type {keyof NodeResult} */ name) => heard.map((result) => result[name])
    const sum = (/** @type {keyof NodeResult} */ name) => of(name).reduce((total, value) => total + value, 0)
    const [takes, failed, outages, calls] = /** @type {const} */ (['takes', 'failed', 'outages', 'calls']).map(sum)
    const [p50Ms, p99Ms, maxMs] = /** @type {const} */ (['p50Ms', 'p99Ms', 'maxMs']).map((name) =>
      Math.max(...of(name)),
    )
    return {
      takes,
      refused: sum('refused'),
      failed,
      outages,
      calls,
      redisUs: (redisSeconds * 1e6) / takes,
      p50Ms,
      p99Ms,
      maxMs,
    }
  } finally {
    await redis.stop()
  }
}
