// @ts-check
// Redis, NATS and the nodes of a run of faults. Each keeps its port and its folder when it is killed and started again.

import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { cp, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { kill, runToEnd, startNode, terminate } from '../../test/support/processes.js'
import { NATS_SERVER, startNatsServers as startServers, startRedis as startStore } from '../../test/support/stores.js'
import { nodeFlagsOf, ROOT } from '../shared/node-flags.js'

/** What a drain may take, and a little for a machine that is busy. */
const DRAIN_TIMEOUT_MS = 30_000
const NODE_FLAGS = nodeFlagsOf(ROOT)

/** @typedef {Omit<import('../../test/support/processes.js').Running, 'stdout'>} Running */
/** @typedef {{ name: string, atMs: number, level: string, text: string }} LogLine */

/**
 * What Redis answers is written to its file first, and kill -9 loses nothing that was written. Synced it is not: on a
 * busy disk that takes longer than the service waits for Redis, and the run would try little else.
 * @param {string} folder
 */
export function startRedis(folder) {
  return startStore(['--appendfsync', 'no'], { folder })
}

/** `url`: of all its servers, with commas. @typedef {Pick<import('../../test/support/stores.js').Store, 'url' | 'kill' | 'terminate' | 'restart' | 'freeze' | 'resume'>} NatsServers */

/**
 * A cluster whose servers go and come together. Each syncs before it acknowledges, where its version knows how.
 * @param {string} folder @param {number} count @returns {Promise<NatsServers & { monitorUrls: string }>}
 */
export async function startNatsServers(folder, count) {
  mkdirSync(folder, { recursive: true })
  const config = join(folder, 'nats.conf')
  writeFileSync(config, 'jetstream { sync_interval: always }\n')
  const tried = await runToEnd({ command: [NATS_SERVER, '--config', config, '-t'] })
  const syncs = tried.code === 0
  const { servers, ...urls } = await startServers(count, { folder, extra: syncs ? ['--config', config] : [] })
  return {
    ...urls,
    kill: async () => void (await Promise.all(servers.map((server) => server.kill()))),
    terminate: async () => void (await Promise.all(servers.map((server) => server.terminate()))),
    restart: async () => void (await Promise.all(servers.map((server) => server.restart()))),
    freeze: () => servers.forEach((server) => server.freeze()),
    resume: () => servers.forEach((server) => server.resume()),
  }
}

/** The built service as it is now: a build during the run must not mix two versions. @param {string} folder */
export async function copyService(folder) {
  await cp(join(ROOT, 'dist'), join(folder, 'dist'), { recursive: true })
  await cp(join(ROOT, 'package.json'), join(folder, 'package.json'))
  await cp(join(ROOT, 'bin', 'node-version.js'), join(folder, 'bin', 'node-version.js'))
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return join(folder, 'dist')
}

/** A built service: what a report calls it, and its folder. @typedef {{ name: string, dist: string }} Version */

/** @typedef {ReturnType<typeof createNode>} Node */

/**
 * @param {{ name: string, port: number, adminPort: number, folder: string, versions: readonly Version[],
 *   env: Readonly<Record<string, string>>, onLog: (line: LogLine) => void, onDeath: (text: string) => void }} options
 *   `versions`: it begins with the first; `onDeath`: it ended by itself
 */
export function createNode({ name, port, adminPort, folder, versions, env, onLog, onDeath }) {
  mkdirSync(folder, { recursive: true })
  /** @type {Running | null} */
  let process = null
  let isMeantToEnd = false
  let changes = 0
  const version = () => versions[changes % versions.length]
  const alive = () => {
    if (process === null) throw new Error(`${name} was never started`)
    return process
  }
  const ownEnvironment = {
    ...env,
    PORT: String(port),
    HOST: '127.0.0.1',
    SLUICE_ADMIN_PORT: String(adminPort),
    SLUICE_ADMIN_HOST: '127.0.0.1',
    SLUICE_DATA_DIR: join(folder, 'data'),
    SLUICE_PARSERS: '1',
  }
  const node = {
    name,
    port,
    adminPort,
    /** Counts its starts. */
    life: 0,
    pid: () => alive().pid,
    /** From its next start on it runs the next of its versions, which is named. */
    change: () => {
      changes += 1
      return version().name
    },
    /** Resolves when it listens. */
    start: async () => {
      isMeantToEnd = false
      node.life += 1
      const lines = lineReader((text) => {
        appendFileSync(join(folder, 'log'), `${text}\n`)
        onLog(readLogLine(name, text))
      })
      const program = ['node', ...NODE_FLAGS, join(version().dist, 'main.js')]
      process = await startNode({ program, cwd: folder, env: ownEnvironment, onOutput: lines })
      void noticeDeath(process)
    },
    kill: () => {
      isMeantToEnd = true
      return kill(alive())
    },
    /** SIGTERM; null: still there when it had to be gone. */
    terminate: () => {
      isMeantToEnd = true
      return terminate(alive(), DRAIN_TIMEOUT_MS)
    },
    freeze: () => alive().signal('SIGSTOP'),
    resume: () => alive().signal('SIGCONT'),
  }
  /** @param {Running} started */
  const noticeDeath = async (started) => {
    const { code, signal } = await started.exited
    if (!isMeantToEnd) onDeath(`${name} ended by itself: code ${code}, signal ${signal}`)
  }
  return node
}

/** @param {(line: string) => void} onLine */
function lineReader(onLine) {
  let rest = ''
  return (/** @type {string} */ text) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line)
  }
}

/** What is not JSON was not written by the log, and so should not be there. @param {string} name @param {string} text @returns {LogLine} */
function readLogLine(name, text) {
  try {
    const { level, time } = JSON.parse(text)
    return { name, atMs: Date.parse(time), level, text }
  } catch {
    return { name, atMs: Date.now(), level: 'fatal', text }
  }
}
