// @ts-check
// The programs that the benchmark does not bring along: wrk, and the Redis and NATS servers that it starts for itself.

import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { freePort } from '../../test/support/processes.js'
import { startNats as startNatsServer, startRedis as startRedisServer } from '../../test/support/stores.js'
import { cpuSeconds, LOAD_CORE, on } from './processes.js'
import { temporaryFolder } from './servers.js'

const REDIS_REPLY_TIMEOUT_MS = 5000

/** @typedef {import('../../test/support/stores.js').Store & { cpuSeconds: () => number }} Backend */
/** @typedef {{ calls: number, commands: number }} RedisCounts */

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
  return Object.assign(redis, {
    cpuSeconds: () => cpuSeconds(redis.pid),
    counts: () => redisCounts(redis.port),
    usedBytes: async () => Number(/^used_memory:(\d+)/m.exec(await askRedis(redis.port, 'INFO memory'))?.[1]),
  })
}

/** Versions before 2.10 refuse the setting. */
export function knowsSyncInterval() {
  return !/v2\.\d\./.test(execFileSync('nats-server', ['--version'], { encoding: 'utf8' }))
}

/**
 * JetStream in a folder of its own. `syncsAlways`: it syncs before it acknowledges, in place of every two minutes.
 * @param {{ syncsAlways?: boolean, clustered?: string[] }} [options] `clustered`: flags of one server of a cluster @returns {Promise<Backend & { monitorUrl: string }>}
 */
export async function startNats({ syncsAlways = false, clustered = [] } = {}) {
  const file = join(temporaryFolder(), 'nats.conf')
  writeFileSync(file, syncsAlways ? 'jetstream { sync_interval: always }\n' : '')
  const monitorPort = await freePort()
  const monitored = ['--http_port', String(monitorPort)]
  const nats = await startNatsServer(['--config', file, ...monitored, ...clustered], { before: on(LOAD_CORE) })
  return Object.assign(nats, {
    monitorUrl: `http://127.0.0.1:${monitorPort}`,
    cpuSeconds: () => cpuSeconds(nats.pid),
  })
}

/** @param {number} size @param {{ syncsAlways: boolean }} options @returns {Promise<Pick<Backend, 'url' | 'cpuSeconds' | 'stop'> & { monitorUrl: string }>} */
export async function startNatsCluster(size, { syncsAlways }) {
  const routePorts = await Promise.all(Array.from({ length: size }, () => freePort()))
  const routes = routePorts.map((port) => `nats://127.0.0.1:${port}`)
  const servers = await Promise.all(
    routes.map((route, at) => {
      const names = ['--server_name', `bench-${at}`, '--cluster_name', 'bench']
      return startNats({ syncsAlways, clustered: [...names, '--cluster', route, '--routes', routes.join(',')] })
    }),
  )
  return {
    url: servers.map(({ url }) => url).join(','),
    monitorUrl: servers.map(({ monitorUrl }) => monitorUrl).join(','),
    cpuSeconds: () => servers.reduce((sum, server) => sum + server.cpuSeconds(), 0),
    stop: async () => void (await Promise.all(servers.map((server) => server.stop()))),
  }
}

/**
 * What Redis has done so far. `calls`: scripts that it was asked to run; `commands`: all of its work, scripts and the
 * commands in them. Asking counts as one command.
 * @param {number} port @returns {Promise<RedisCounts>}
 */
async function redisCounts(port) {
  const text = await askRedis(port, 'INFO everything')
  const calls = ['evalsha', 'eval'].map((name) =>
    Number(new RegExp(`^cmdstat_${name}:calls=(\\d+)`, 'm').exec(text)?.[1] ?? 0),
  )
  const commands = Number(/^total_commands_processed:(\d+)/m.exec(text)?.[1])
  return { calls: calls[0] + calls[1], commands }
}

/** Sends one command and gives its text. @param {number} port @param {string} command @returns {Promise<string>} */
function askRedis(port, command) {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(`${command}\r\n`))
    socket.setTimeout(REDIS_REPLY_TIMEOUT_MS, () => socket.destroy(new Error(`Redis did not answer ${command}`)))
    socket.once('error', reject)
    let reply = Buffer.alloc(0)
    socket.on('data', (chunk) => {
      reply = Buffer.concat([reply, chunk])
      // `$<bytes>`, a line's end, the text, a line's end.
      const head = /^\$(\d+)\r\n/.exec(reply.toString('latin1', 0, 32))
      if (head === null || reply.length < head[0].length + Number(head[1])) return
      socket.destroy()
      resolve(reply.toString('utf8', head[0].length))
    })
  })
}
