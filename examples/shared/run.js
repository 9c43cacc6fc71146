// What the examples' programs share: their options, the source that the settings name, and an orderly end.

import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { consume } from './consume.js'
import { openDeadLetters } from './dead-letters.js'
import { openJournal } from './journal.js'
import { reasonOf } from './reason.js'
import { openStore } from './store.js'
import { openStream } from './stream.js'

/** What does not end by itself, such as a connection that is not made, is ended. */
const END_WITHIN_MS = 10_000

const COMMON_OPTIONS = /** @type {const} */ ({
  folder: { type: 'string' },
  name: { type: 'string' },
  subjects: { type: 'string' },
  from: { type: 'string' },
  help: { type: 'boolean' },
})
const COMMON_HELP = `
  --folder F      where rows, position and dead letters are kept (./data/NAME)
  --name NAME     durable consumer of the stream, one for each folder
  --subjects S    only these of the stream, with commas: sluice.events.0,sluice.events.1
  --from TIME     at the first start: what was received since then; otherwise all that is there
It reads the stream at NATS_URL (NATS_CREDS: a credentials file), or the journal in SLUICE_DATA_DIR (./data).`

/**
 * @typedef {import('./store.js').Store} Store
 * @typedef {import('./dead-letters.js').DeadLetters} DeadLetters
 *
 * @typedef {object} Place
 * @property {string} folder
 * @property {Store} store
 * @property {DeadLetters} deadLetters
 * @property {AbortSignal} signal   Aborted when the program is to end.
 * @property {(message: string) => void} log
 * @property {Record<string, string | boolean | undefined>} options
 *
 * @typedef {object} Steps
 * @property {(storedEvents: number) => Promise<void>} afterChunk  Called about once a second with the number of events that came.
 * @property {() => Promise<void>} [finish]  Called when the program is to end, and no more events come.
 */

/**
 * Runs until SIGINT or SIGTERM, or until the sink takes nothing any more (exit code 1).
 *
 * @param {object} example
 * @param {string} example.name
 * @param {string} example.help
 * @param {Record<string, { type: 'string' }>} [example.options]
 * @param {(place: Place) => Promise<Steps>} example.begin
 */
export async function run({ name: defaultName, help, options: ownOptions = {}, begin }) {
  const options = /** @type {Record<string, any>} */ (parse({ ...COMMON_OPTIONS, ...ownOptions }))
  if (options.help) {
    console.log(`${help}${COMMON_HELP}`)
    return
  }
  const stopping = new AbortController()
  const { signal } = stopping
  for (const end of ['SIGINT', 'SIGTERM']) process.on(end, () => stopping.abort())
  signal.addEventListener('abort', () => setTimeout(() => process.exit(1), END_WITHIN_MS).unref())
  const log = (/** @type {string} */ message) => console.error(`${new Date().toISOString()} ${message}`)
  /** @param {unknown} error */
  const fail = (error) => {
    log(`ends: ${reasonOf(error)}`)
    process.exitCode = 1
  }
  /** @type {(() => unknown)[]} */
  const closers = []
  /** @type {Steps | undefined} */
  let steps
  try {
    const name = options.name ?? defaultName
    const folder = options.folder ?? join('data', name)
    const store = await openStore(folder)
    closers.push(store.close)
    const deadLetters = await openDeadLetters(folder, log)
    steps = await begin({ folder, store, deadLetters, signal, log, options })
    const source = await openSource({ name, options, store, log })
    closers.push(source.close)
    await consume({ source, sink: store, deadLetters, afterChunk: steps.afterChunk, signal, log })
  } catch (error) {
    // What was being tried was broken off.
    if (!signal.aborted) fail(error)
  }
  if (signal.aborted) await steps?.finish?.().catch(fail)
  for (const close of closers.toReversed()) await close()
}

/** @param {{ name: string, options: Record<string, any>, store: Store, log: (message: string) => void }} place */
async function openSource({ name, options: { from, subjects }, store, log }) {
  const { NATS_URL: url, NATS_CREDS: credentials, SLUICE_DATA_DIR: dataFolder = './data' } = process.env
  if (from !== undefined && Number.isNaN(Date.parse(from))) throw new Error(`--from ${from} is no time`)
  const folder = join(dataFolder, 'journal')
  // Not the URL: it may have a password.
  const place = url === undefined ? folder : 'the stream'
  log(`reading ${place} from ${store.position()?.sequence ?? from ?? 'the start'} for ${name}`)
  if (url === undefined) return openJournal({ folder, from, log })
  return await openStream({ url, credentials, consumer: name, subjects: subjects?.split(',') ?? [], from, log })
}

/** @param {import('node:util').ParseArgsConfig['options']} options */
function parse(options) {
  try {
    return parseArgs({ options }).values
  } catch (error) {
    console.error(`${reasonOf(error)}; --help lists the options`)
    process.exit(1)
  }
}
