// @ts-check
// A node of the built service for one run: free ports, an app file, a folder that goes with it.

import { randomInt } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { nodeFlagsOf, ROOT } from '../shared/node-flags.js'
import { freePort, launch } from '../shared/processes.js'

const NODE_FLAGS = nodeFlagsOf(ROOT)
export const ENTRY = fileURLToPath(new URL('../../dist/main.js', import.meta.url))
const START_TIMEOUT_MS = 60_000
const STOP_TIMEOUT_MS = 30_000
const POLL_MS = 50
const MAX_OUTPUT_CHARACTERS = 20_000
const JOURNAL_MAX_MB = 60_000

/** @typedef {{ baseUrl: string, adminUrl: string, dataDir: string, stop: () => Promise<void> }} LocalNode */

/** @param {{ name: string, folder: string, appsFile?: string, env?: Readonly<Record<string, string>>, place?: readonly string[] }} options @returns {Promise<LocalNode>} */
export async function startNode({ name, folder, appsFile, env = {}, place = [] }) {
  if (!existsSync(ENTRY)) throw new Error('the service is not built: npm run build')
  const dataDir = join(folder, name)
  mkdirSync(dataDir, { recursive: true })
  const [port, adminPort] = [await freePort(randomInt), await freePort(randomInt)]
  let output = ''
  const started = launch({
    command: [...place, process.execPath, ...NODE_FLAGS, ENTRY, 'serve'],
    cwd: folder,
    env: {
      PORT: String(port),
      HOST: '127.0.0.1',
      SLUICE_ADMIN_PORT: String(adminPort),
      SLUICE_ADMIN_HOST: '127.0.0.1',
      SLUICE_DATA_DIR: dataDir,
      SLUICE_JOURNAL_MAX_MB: String(JOURNAL_MAX_MB),
      ...(appsFile === undefined ? {} : { SLUICE_APPS_FILE: appsFile }),
      ...env,
    },
    onOutput: (text) => (output = (output + text).slice(-MAX_OUTPUT_CHARACTERS)),
  })
  const adminUrl = `http://127.0.0.1:${adminPort}`
  const deadlineMs = Date.now() + START_TIMEOUT_MS
  while (!(await isReady(adminUrl))) {
    if (started.exit() !== null) throw new Error(`the node ended at its start:\n${output}`)
    if (Date.now() > deadlineMs) throw new Error(`the node was not ready in ${START_TIMEOUT_MS / 1000} s:\n${output}`)
    await sleep(POLL_MS)
  }
  const stop = async () => {
    started.signal('SIGTERM')
    const late = setTimeout(() => started.signal('SIGKILL'), STOP_TIMEOUT_MS)
    await started.exited
    clearTimeout(late)
  }
  return { baseUrl: `http://127.0.0.1:${port}`, adminUrl, dataDir, stop }
}

/** @param {string} adminUrl */
function isReady(adminUrl) {
  return fetch(`${adminUrl}/readyz`).then(
    ({ status }) => status === 200,
    () => false,
  )
}

/** @param {string} folder @param {readonly unknown[]} apps */
export function writeApps(folder, apps) {
  const file = join(folder, 'apps.json')
  writeFileSync(file, JSON.stringify({ apps }))
  return file
}
