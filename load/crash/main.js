// @ts-check
// `npm run crash`: kill -9 of the built service at random moments under load, again and again, with its journal or with
// Redis and NATS. In the end every batch that was answered 202 is stored whole, and none is stored twice.

import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { endAll } from '../../test/support/processes.js'
import { Violations } from '../faults/checks.js'
import { createRng } from '../payloads.js'
import { ROOT } from '../shared/node-flags.js'
import { embeddedGround, sharedGround } from './ground.js'
import { lostAndTwice, runRounds } from './rounds.js'

const HELP = `Usage: npm run crash -- [OPTIONS]

  --rounds N   how often a node is killed (100)
  --seed S     of the moments and the bodies (default: made up, and printed)
  --shared     two nodes over Redis and NATS, one of them killed in each round; default: one node with its journal
`
/** After so many rounds the queue is judged, and the next ones begin with an empty one. */
const ROUNDS_OF_A_QUEUE = 50
const MAX_ROUNDS = 1_000_000
const MAX_SEED = 2 ** 32
const PREFIX = 'sluice-crash-'

/** @typedef {{ rounds: number, seed: number, isShared: boolean }} Options */

/** @param {Record<string, string | boolean | undefined>} values @returns {Options} */
function readOptions(values) {
  const integer = (/** @type {string} */ name, /** @type {number} */ least, /** @type {number} */ most) => {
    const value = Number(values[name])
    if (!Number.isInteger(value) || value < least || value > most) {
      throw new Error(`--${name}: must be an integer from ${least} to ${most}; see --help`)
    }
    return value
  }
  return {
    rounds: integer('rounds', 1, MAX_ROUNDS),
    seed: values.seed === undefined ? Math.floor(Math.random() * 1e9) : integer('seed', 0, MAX_SEED),
    isShared: values.shared === true,
  }
}

const violations = new Violations()
const done = { rounds: 0, accepted: 0, sent: 0, records: 0 }
/** @type {string | null} */
let folder = null
let isInterrupted = false

/** @param {Options} options */
async function runAll({ rounds, seed, isShared }) {
  const rng = createRng(seed)
  const listeners = {
    onLog: (/** @type {import('../faults/servers.js').LogLine} */ { name, level, text }) => {
      if (level === 'fatal') violations.add('logged as fatal', `${name}: ${text}`)
    },
    onDeath: (/** @type {string} */ text) => violations.add('a node ended by itself', text),
  }
  while (done.rounds < rounds) {
    folder = await mkdtemp(join(tmpdir(), PREFIX))
    const ground = await (isShared ? sharedGround : embeddedGround)(folder, listeners)
    const next = Math.min(ROUNDS_OF_A_QUEUE, rounds - done.rounds)
    await runRounds(ground, { rounds: next, rng, violations, done })
    await Promise.all(ground.stores.map((store) => store.terminate()))
    await removeFolder()
    process.stderr.write(`${line()}\n`)
  }
}

function line() {
  const { lost, twice } = lostAndTwice(violations)
  return `${done.rounds} rounds, ${done.sent} requests, ${done.accepted} batches answered 202, ${done.records} records, ${lost} lost, ${twice} twice`
}

/** @param {Options} options @returns {number} the exit code */
function summarize({ seed, isShared }) {
  console.log(`seed ${seed}, ${isShared ? 'two nodes with Redis and NATS' : 'one node with its journal'}: ${line()}`)
  if (violations.count === 0) return 0
  console.log(`WRONG: ${violations.count}\n${violations.lines().join('\n')}`)
  return 1
}

async function removeFolder() {
  if (folder !== null) await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  folder = null
}

function parseOptions() {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '100' },
      seed: { type: 'string' },
      shared: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  return values.help ? null : readOptions(values)
}

async function main() {
  /** @type {Options | null} */
  let options
  try {
    options = parseOptions()
  } catch (error) {
    console.error(`crash: ${error instanceof Error ? error.message : String(error)}`)
    process.exitCode = 2
    return
  }
  if (options === null) {
    console.log(HELP)
    return
  }
  if (!existsSync(join(ROOT, 'dist', 'main.js'))) throw new Error('the service is not built: npm run build')
  // The round in progress is given up, and the summary is of the rounds that were judged.
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
    process.once(signal, () => {
      isInterrupted = true
      summarize(options)
      void endAll()
        .then(removeFolder)
        .finally(() => process.exit(130))
    })
  }
  console.log(`seed ${options.seed}`)
  await runAll(options)
  process.exitCode = summarize(options)
}

main()
  .catch((/** @type {unknown} */ error) => {
    if (isInterrupted) return
    process.exitCode = 1
    console.error(
      `crash: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n${violations.lines().join('\n')}`,
    )
  })
  .finally(async () => {
    if (isInterrupted) return
    await endAll()
    await removeFolder()
    process.stdout.write('', () => process.exit())
  })
