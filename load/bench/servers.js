// @ts-check
// The two servers that the benchmark sets beside each other: the built service, and the raw front end.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { nodeFlagsOf, ROOT } from '../shared/node-flags.js'
import { freePort, SERVER_CORE, start, stop, waitUntilUp } from './processes.js'

/** Apps that the service knows. */
export const APPS = 64
/** Never reached: the benchmark asks what a request costs, not what a plan allows. */
const ENDLESS = 1_000_000_000_000
const JOURNAL_MAX_MB = 60_000

const here = (/** @type {string} */ path) => fileURLToPath(new URL(path, import.meta.url))
const ENTRY = join('dist', 'main.js')
export const SERVICE_ENTRY = join(ROOT, ENTRY)

/** @typedef {{ pid: number, port: number, adminPort: number, stop: () => Promise<void> }} Server */

/** Folders that are still to be removed. @type {Set<string>} */
const folders = new Set()

export async function temporaryFolder() {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  folders.add(folder)
  return folder
}

/** @param {string} folder */
export async function removeFolder(folder) {
  await rm(folder, { recursive: true, force: true })
  folders.delete(folder)
}

export async function removeFolders() {
  await Promise.all([...folders].map(removeFolder))
}

/** @param {number} app counts from 0 */
export function appKeyOf(app) {
  return `ak_bench_${String(app).padStart(10, '0')}`
}

/**
 * Starts the service with an empty journal, or on the Redis and NATS that `env` names. `tree`: another
 * checkout of it, built; its own package.json says with which flags Node runs it.
 * @param {{ nodeArgs?: string[], env?: Record<string, string>, tree?: string }} [options] @returns {Promise<Server>}
 */
export async function startService({ nodeArgs = [], env = {}, tree = ROOT } = {}) {
  const folder = await temporaryFolder()
  const [port, adminPort] = [await freePort(), await freePort()]
  const appsFile = join(folder, 'apps.json')
  const apps = Array.from({ length: APPS }, (_, app) => ({
    app_key: appKeyOf(app),
    app_id: `bench-${app}`,
    plan: '5m',
    subscription: 'active',
    events_per_minute: ENDLESS,
    events_per_month: ENDLESS,
  }))
  await writeFile(appsFile, JSON.stringify({ apps }))
  await mkdir(join(folder, 'data'))
  const command = [process.execPath, ...nodeFlagsOf(tree), ...nodeArgs, join(tree, ENTRY), 'serve']
  const started = start(SERVER_CORE, command, {
    PORT: String(port),
    HOST: '127.0.0.1',
    SLUICE_ADMIN_PORT: String(adminPort),
    SLUICE_ADMIN_HOST: '127.0.0.1',
    SLUICE_DATA_DIR: join(folder, 'data'),
    SLUICE_APPS_FILE: appsFile,
    SLUICE_JOURNAL_MAX_MB: String(JOURNAL_MAX_MB),
    ...env,
  })
  await waitUntilUp(started, `http://127.0.0.1:${adminPort}/readyz`, (status) => status === 200)
  const end = async () => {
    await stop(started)
    await removeFolder(folder)
  }
  return { pid: started.pid, port, adminPort, stop: end }
}

/** @returns {Promise<Server>} */
export async function startRaw() {
  const port = await freePort()
  const started = start(SERVER_CORE, [process.execPath, here('raw-front-end.js'), String(port)])
  await waitUntilUp(started, `http://127.0.0.1:${port}/`, (status) => status !== 0)
  return { pid: started.pid, port, adminPort: 0, stop: () => stop(started) }
}
