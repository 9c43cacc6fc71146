// @ts-check
// The programs that the benchmark does not bring along: wrk, and the Redis and NATS servers that it starts for itself.

import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { metricsOf } from '../../test/support/processes.js'
import { startNatsServers, startRedis as startRedisServer } from '../../test/support/stores.js'
import { temporaryFolder } from '../shared/program.js'
import { cpuSeconds, LOAD_CORE, on } from './processes.js'
import { startService } from './servers.js'

/** Finds the programs, or installs them where that is one command away. @param {string[]} names */
export function ensurePrograms(names) {
  const missing = names.filter((name) => !isPresent(name))
  if (missing.length === 0) return
  const command = `apt-get install -y --no-install-recommends ${missing.join(' ')}`
  if (process.getuid?.() === 0 && isPresent('apt-get')) {
    console.error(command)
    try {
      execFileSync('sh', ['-c', `apt-get update && ${command}`], { stdio: 'ignore' })
      return
    } catch {
      // What to install is said below.
    }
  }
  throw new Error(`not installed: ${missing.join(', ')}; on Debian and Ubuntu: ${command}`)
}

/** @param {string} program */
function isPresent(program) {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Keeps an append-only file, synced every second. */
export async function startRedis() {
  const redis = await startRedisServer(['--appendfsync', 'everysec'], { before: on(LOAD_CORE) })
  // One connection throughout, and each look at Redis is one command.
  const client = new Redis(redis.url, { enableReadyCheck: false })
  return {
    url: redis.url,
    cpuSeconds: () => cpuSeconds(redis.pid),
    counts: async () => countsIn(await client.info('everything')),
    usedBytes: async () => Number(/^used_memory:(\d+)/m.exec(await client.info('memory'))?.[1]),
    stop: async () => {
      client.disconnect()
      await redis.stop()
    },
  }
}

/** Versions before 2.10 refuse the setting. */
export function knowsSyncInterval() {
  return !/v2\.\d\./.test(execFileSync('nats-server', ['--version'], { encoding: 'utf8' }))
}

/** JetStream. `syncsAlways`: it syncs before it acknowledges, in place of every two minutes. @param {{ syncsAlways?: boolean | undefined, size: number }} options `size`: servers of one cluster */
async function startNats({ syncsAlways = false, size }) {
  const file = join(temporaryFolder('bench'), 'nats.conf')
  writeFileSync(file, syncsAlways ? 'jetstream { sync_interval: always }\n' : '')
  const { servers, ...urls } = await startNatsServers(size, { extra: ['--config', file], before: on(LOAD_CORE) })
  return {
    ...urls,
    servers,
    cpuSeconds: () => servers.reduce((sum, { pid }) => sum + cpuSeconds(pid), 0),
    stop: async () => void (await Promise.all(servers.map((server) => server.stop()))),
  }
}

/** @typedef {{ redisUs: number, natsUs: number, callsPer1000: number, commandsPer1000: number, recordsPerMessage: number }} Beside of a request */
/** @typedef {Awaited<ReturnType<typeof startCluster>>} Cluster */

/**
 * One node on a Redis and NATS of its own. `replicas`: each on a server of its own; `syncsAlways`: the node looks whether NATS does.
 * `measure`: a load, and what Redis and NATS did for it.
 * @param {Parameters<typeof startService>[0] & { syncsAlways?: boolean, replicas?: number | undefined }} [options]
 */
export async function startCluster({ syncsAlways, replicas = 1, ...options } = {}) {
  const redis = await startRedis()
  const nats = await startNats({ syncsAlways, size: replicas })
  const stores = {
    REDIS_URL: redis.url,
    NATS_URL: nats.url,
    ...(syncsAlways !== undefined && { NATS_MONITOR_URLS: nats.monitorUrls }),
    SLUICE_STREAM_REPLICAS: String(replicas),
  }
  const node = await startService({ ...options, env: { ...options.env, ...stores } })
  const look = async () => {
    const metrics = await metricsOf(node)
    const [messages = 0, records = 0] = ['count', 'sum'].map((of) => metrics.get(`sluice_publish_records_${of}`))
    return {
      redisSeconds: redis.cpuSeconds(),
      natsSeconds: nats.cpuSeconds(),
      ...(await redis.counts()),
      messages,
      records,
    }
  }
  /** @template {{ requests: number }} T @param {() => Promise<T>} load @returns {Promise<T & Beside>} */
  const measure = async (load) => {
    const before = await look()
    const run = await load()
    const after = await look()
    const per = (/** @type {number} */ value, /** @type {number} */ unit) => (value * unit) / run.requests
    return {
      ...run,
      redisUs: per(after.redisSeconds - before.redisSeconds, 1e6),
      natsUs: per(after.natsSeconds - before.natsSeconds, 1e6),
      callsPer1000: per(after.calls - before.calls, 1000),
      // The first look counts in the second.
      commandsPer1000: per(after.commands - before.commands - 1, 1000),
      recordsPerMessage: (after.records - before.records) / (after.messages - before.messages),
    }
  }
  const stop = async () => {
    await node.stop()
    await Promise.all([redis.stop(), nats.stop()])
  }
  return { ...node, redis, nats, measure, end: node.stop, stop }
}

/**
 * What Redis has done so far. `calls`: scripts that it was asked to run; `commands`: all of its work, scripts and the
 * commands in them. @param {string} text
 */
function countsIn(text) {
  const [one, other] = ['evalsha', 'eval'].map((name) =>
    Number(new RegExp(`^cmdstat_${name}:calls=(\\d+)`, 'm').exec(text)?.[1] ?? 0),
  )
  return { calls: one + other, commands: Number(/^total_commands_processed:(\d+)/m.exec(text)?.[1]) }
}
