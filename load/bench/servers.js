// @ts-check
// The two servers that the benchmark sets beside each other: the built service, and the raw front end.

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startProgram } from '../../test/support/processes.js'
import { temporaryFolder } from '../shared/program.js'
import { endlessApp, startService as startNode } from '../shared/service.js'
import { on, SERVER_CORE } from './processes.js'

/** Apps that the service knows. */
export const APPS = 64
const RAW_FRONT_END = fileURLToPath(new URL('raw-front-end.js', import.meta.url))

/** @typedef {{ pid: number, port: number, adminPort: number, portalPort: number, scheme?: 'http' | 'https', stop: () => Promise<void> }} Server */

/** @param {string} folder */
function removeFolder(folder) {
  rmSync(folder, { recursive: true, force: true })
}

/** @param {number} app counts from 0 */
export function appKeyOf(app) {
  return `ak_bench_${String(app).padStart(10, '0')}`
}

/**
 * Starts the service with an empty journal, or on the Redis and NATS that `env` names. `tree`: another
 * checkout of it, built; its own package.json says with which flags Node runs it. `node`: another program than this Node.
 * `readKeys`: of the first apps, one each.
 * @param {{ nodeArgs?: string[], env?: Record<string, string>, tree?: string, node?: string, before?: readonly string[], readKeys?: readonly object[] }} [options]
 * @returns {Promise<Server>}
 */
export async function startService({ readKeys = [], ...options } = {}) {
  const dataDir = temporaryFolder('bench')
  const apps = Array.from({ length: APPS }, (_, app) => ({
    ...endlessApp(appKeyOf(app), `bench-${app}`),
    ...(app < readKeys.length && { read_keys: [readKeys[app]] }),
  }))
  const service = await startNode({ dataDir, apps, before: on(SERVER_CORE), ...options })
  const stop = async () => {
    await service.stop()
    removeFolder(dataDir)
  }
  return { ...service, ...(options.env?.SLUICE_TLS_CERT !== undefined && { scheme: 'https' }), stop }
}

/** The engine alone: it drops each body. @returns {Promise<Server>} */
export function startRaw() {
  return startEngine([])
}

/** The engine that keeps each body durably, and does nothing else. @returns {Promise<Server>} */
export async function startFloor() {
  const folder = temporaryFolder('bench')
  const floor = await startEngine([join(folder, 'bodies')])
  const stop = async () => {
    await floor.stop()
    removeFolder(folder)
  }
  return { ...floor, stop }
}

/** @param {readonly string[]} words @returns {Promise<Server>} */
async function startEngine(words) {
  const command = [...on(SERVER_CORE), process.execPath, RAW_FRONT_END]
  const raw = await startProgram({ name: 'raw', command: ({ port }) => [...command, String(port), ...words] })
  return Object.assign(raw, { adminPort: 0, portalPort: 0 })
}
