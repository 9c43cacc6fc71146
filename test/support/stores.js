// @ts-check
// Real Redis and NATS servers for tests and load. `restart()` finds what was stored.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { freePort, startProgram } from './processes.js'

/** SLUICE_TEST_NATS_SERVER names the program that all tests run, in place of the one in PATH. */
export const NATS_SERVER = process.env['SLUICE_TEST_NATS_SERVER'] ?? 'nats-server'

/** @typedef {import('./processes.js').Program & { url: string }} Store */
/** `before`: stands before its command. @typedef {{ folder?: string, before?: readonly string[], program?: string }} Place */

/** Every write goes to an append-only file, and is synced first unless `extra` says otherwise. @param {readonly string[]} [extra] @param {Place} [place] */
export function startRedis(extra = [], place = {}) {
  return startStore('redis', place, (port, data) => {
    const listening = ['--port', String(port), '--bind', '127.0.0.1', '--dir', data, '--logfile', '']
    return ['redis-server', ...listening, '--save', '', '--appendonly', 'yes', '--appendfsync', 'always', ...extra]
  })
}

/** With JetStream. @param {readonly string[]} [extra] @param {Place} [place] */
export function startNats(extra = [], { program = NATS_SERVER, ...place } = {}) {
  return startStore('nats', place, (port, data) => {
    const listening = ['--addr', '127.0.0.1', '--port', String(port)]
    return [program, ...listening, '--jetstream', '--store_dir', data, ...extra]
  })
}

/**
 * Servers of one cluster, each with a monitor: a stream may have so many replicas. One is a server by itself.
 * @param {number} size @param {Place & { extra?: readonly string[] }} [place] `folder`: has one of each server
 */
export async function startNatsServers(size, { extra = [], folder, ...place } = {}) {
  const ports = () => Promise.all(Array.from({ length: size }, () => freePort()))
  const [monitors, routes] = [await ports(), (await ports()).map((port) => `nats://127.0.0.1:${port}`)]
  const servers = await Promise.all(
    routes.map(async (route, at) => {
      const serverName = `server-${at}`
      const names = ['--server_name', serverName, '--cluster_name', 'sluice']
      const clustered = size === 1 ? [] : [...names, '--cluster', route, '--routes', routes.join(',')]
      const own = folder === undefined ? place : { ...place, folder: join(folder, serverName) }
      const server = await startNats(['--http_port', String(monitors[at]), ...clustered, ...extra], own)
      return Object.assign(server, { serverName })
    }),
  )
  return {
    servers,
    url: servers.map(({ url }) => url).join(','),
    monitorUrls: monitors.map((port) => `http://127.0.0.1:${port}`).join(','),
  }
}

/** @param {'redis' | 'nats'} name @param {Place} place @param {(port: number, data: string) => string[]} command @returns {Promise<Store>} */
async function startStore(name, { folder, before = [] }, command) {
  const program = await startProgram({
    name,
    ...(folder !== undefined && { folder }),
    command: (at) => {
      const data = join(at.folder, 'data')
      mkdirSync(data, { recursive: true })
      return [...before, ...command(at.port, data)]
    },
  })
  return Object.assign(Object.create(program), { url: `${name}://127.0.0.1:${program.port}` })
}
