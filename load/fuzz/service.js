// @ts-check
// The built service under the fuzzer: embedded, in a folder of its own, any Node. What is known of it comes over its
// admin port, its log and its journal.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { metricsOf } from '../../test/support/processes.js'
import { journalRecords } from '../shared/journal-records.js'
import { endlessApp, startService as start } from '../shared/service.js'
import { APP_KEY } from './requests.js'

export const RING_MB = 32
export const HONEST_KEY = 'ak_honest'
const MAX_OUTPUT_CHARACTERS = 20_000
const MAX_ERRORS = 20
const KINDS_OF_LOG_LINES_THAT_MATTER = /"level":"(error|fatal)"|^(?!\{)/

/** @typedef {Awaited<ReturnType<typeof startService>>} FuzzedService */

/** @param {{ folder: string, node: string }} options */
export async function startService({ folder, node }) {
  const dataDir = join(folder, 'data')
  mkdirSync(dataDir, { recursive: true })
  let output = ''
  /** @type {string[]} */
  const errors = []
  let line = ''
  const service = await start({
    dataDir,
    node,
    apps: [endlessApp(APP_KEY, 'fuzz'), endlessApp(HONEST_KEY, 'honest')],
    env: { SLUICE_RING_MB: String(RING_MB) },
    onOutput: (text) => {
      output = (output + text).slice(-MAX_OUTPUT_CHARACTERS)
      const lines = (line + text).split('\n')
      line = lines.pop() ?? ''
      const bad = lines.filter((whole) => KINDS_OF_LOG_LINES_THAT_MATTER.test(whole))
      errors.push(...bad.slice(0, MAX_ERRORS - errors.length))
    },
  })
  return {
    ...service,
    output: () => output,
    /** Lines of its log that tell of an error, and those that are no log lines. */
    errors: () => [...errors, ...(line === '' ? [] : [line])],
    /** Its metrics: the sum of each name, and each labelled one by itself. @returns {Promise<Record<string, number>>} */
    metrics: async () => Object.fromEntries(await metricsOf(service)),
    /** SIGTERM; its exit code, or null where it had to be killed. */
    stop: () =>
      service.stop().then(
        ({ code }) => code,
        () => null,
      ),
    records: () => journalRecords(join(dataDir, 'journal')),
  }
}
