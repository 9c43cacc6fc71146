// @ts-check
// The built service under the fuzzer: embedded, in a folder of its own, any Node. What is known of it comes over its
// admin port, its log and its journal.

import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { journalRecords } from '../shared/journal-records.js'
import { nodeFlagsOf, ROOT } from '../shared/node-flags.js'
import { launch } from '../shared/processes.js'
import { APP_KEY } from './requests.js'

const ENTRY = fileURLToPath(new URL('../../dist/main.js', import.meta.url))
const NODE_FLAGS = nodeFlagsOf(ROOT)
export const RING_MB = 32
export const HONEST_KEY = 'ak_honest'
const START_TIMEOUT_MS = 30_000
const STOP_TIMEOUT_MS = 40_000
const MAX_OUTPUT_CHARACTERS = 20_000
const MAX_ERRORS = 20
/** No limit is reached. */
const ENDLESS = 1_000_000_000_000
const KINDS_OF_LOG_LINES_THAT_MATTER = /"level":"(error|fatal)"|^(?!\{)/

/** @typedef {Awaited<ReturnType<typeof startService>>} FuzzedService */

/** @param {{ folder: string, node: string }} options */
export async function startService({ folder, node }) {
  if (!existsSync(ENTRY)) throw new Error('the service is not built: npm run build')
  const dataDir = join(folder, 'data')
  mkdirSync(dataDir, { recursive: true })
  const appsFile = join(folder, 'apps.json')
  const app = { plan: '5m', subscription: 'active', events_per_minute: ENDLESS, events_per_month: ENDLESS }
  const apps = [
    { app_key: APP_KEY, app_id: 'fuzz', ...app },
    { app_key: HONEST_KEY, app_id: 'honest', ...app },
  ]
  writeFileSync(appsFile, JSON.stringify({ apps }))
  let output = ''
  /** @type {string[]} */
  const errors = []
  let line = ''
  /** @type {(ports: { port: number, adminPort: number }) => void} */
  let listening = () => {}
  const ports = new Promise((/** @type {typeof listening} */ resolve) => (listening = resolve))
  const running = launch({
    command: [node, ...NODE_FLAGS, ENTRY, 'serve'],
    cwd: folder,
    env: {
      PORT: '0',
      HOST: '127.0.0.1',
      SLUICE_ADMIN_PORT: '0',
      SLUICE_DATA_DIR: dataDir,
      SLUICE_APPS_FILE: appsFile,
      SLUICE_RING_MB: String(RING_MB),
      SLUICE_JOURNAL_MAX_MB: '60000',
    },
    onOutput: (text) => {
      output = (output + text).slice(-MAX_OUTPUT_CHARACTERS)
      const lines = (line + text).split('\n')
      line = lines.pop() ?? ''
      for (const whole of lines) {
        if (KINDS_OF_LOG_LINES_THAT_MATTER.test(whole) && errors.length < MAX_ERRORS) errors.push(whole)
        if (!whole.includes('"msg":"listening"')) continue
        const { port, admin_port: adminPort } = JSON.parse(whole)
        listening({ port, adminPort })
      }
    },
  })
  const ended = running.exited.then(() => {
    throw new Error(`the service ended at its start:\n${output}`)
  })
  ended.catch(() => {})
  const late = timeout(START_TIMEOUT_MS, 'the service did not start in time')
  const { port, adminPort } = await Promise.race([ports, ended, late.promise]).finally(late.cancel)

  return {
    port,
    adminPort,
    pid: running.pid,
    exit: running.exit,
    output: () => output,
    /** Lines of its log that tell of an error, and those that are no log lines. */
    errors: () => [...errors, ...(line === '' ? [] : [line])],
    /** Its metrics: the sum of each name, and each labelled one by itself. @returns {Promise<Record<string, number>>} */
    metrics: async () => {
      const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text()
      return readPage(text)
    },
    /** SIGTERM; its exit code, or null where it had to be killed. */
    stop: async () => {
      running.signal('SIGTERM')
      const killer = setTimeout(() => running.signal('SIGKILL'), STOP_TIMEOUT_MS)
      const { code } = await running.exited
      clearTimeout(killer)
      return code
    },
    records: () => journalRecords(join(dataDir, 'journal')),
  }
}

/** @param {string} text */
function readPage(text) {
  /** @type {Record<string, number>} */
  const page = {}
  for (const line of text.split('\n')) {
    const found = /^(\w+)(\{[^}]*\})? (\S+)$/.exec(line)
    if (found === null) continue
    const [, name, labels, value] = found
    if (labels !== undefined) page[name + labels] = Number(value)
    page[name] = (page[name] ?? 0) + Number(value)
  }
  return page
}

/** @param {number} ms @param {string} complaint */
function timeout(ms, complaint) {
  /** @type {NodeJS.Timeout} */
  let timer
  const promise = new Promise((/** @type {(value: never) => void} */ _, reject) => {
    timer = setTimeout(() => reject(new Error(complaint)), ms)
  })
  return { promise, cancel: () => clearTimeout(timer) }
}
