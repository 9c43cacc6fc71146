// @ts-check
// `npm run crash`: kill -9 of the built service at random moments under load, again and again, with its journal or with
// Redis and NATS. In the end every batch that was answered 202 is stored whole, and none is stored twice.

import { rmSync } from 'node:fs'
import { Violations } from '../faults/checks.js'
import { prepareGround } from '../faults/ground.js'
import { createRng } from '../payloads.js'
import { numberOption, runProgram, seedOption, temporaryFolder } from '../shared/program.js'
import { APPS, lostAndTwice, runRounds } from './rounds.js'

const HELP = `Usage: npm run crash -- [OPTIONS]

  --rounds N   how often a node is killed (100)
  --seed S     of the moments and the bodies (default: made up, and printed)
  --shared     two nodes over Redis and NATS, one of them killed in each round; default: one node with its journal
`
/** After so many rounds the queue is judged, and the next ones begin with an empty one. */
const ROUNDS_OF_A_QUEUE = 50
const MAX_ROUNDS = 1_000_000

const violations = new Violations()
const done = { rounds: 0, accepted: 0, sent: 0, records: 0 }
let title = ''

/** @param {{ rounds: number, seed: number, isShared: boolean }} options */
async function runAll({ rounds, seed, isShared }) {
  const rng = createRng(seed)
  const onLog = (/** @type {import('../faults/servers.js').LogLine} */ { name, level, text }) => {
    if (level === 'fatal') violations.add('logged as fatal', `${name}: ${text}`)
  }
  const onDeath = (/** @type {string} */ text) => violations.add('a node ended by itself', text)
  while (done.rounds < rounds) {
    const folder = temporaryFolder('crash')
    const nodes = isShared ? 2 : 1
    const ground = await prepareGround({ folder, apps: APPS, nodes, isEmbedded: !isShared, onLog, onDeath })
    const next = Math.min(ROUNDS_OF_A_QUEUE, rounds - done.rounds)
    await runRounds(ground, { rounds: next, rng, violations, done })
    await Promise.all([ground.stores?.nats.terminate(), ground.stores?.redis.terminate()])
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
    // After the last ones the result says the same.
    if (done.rounds < rounds) process.stderr.write(`${line()}\n`)
  }
}

function line() {
  const { lost, twice } = lostAndTwice(violations)
  return `${done.rounds} rounds, ${done.sent} requests, ${done.accepted} batches answered 202, ${done.records} records, ${lost} lost, ${twice} twice`
}

/** Once, of the rounds that were judged. */
function summarize() {
  if (title === '') return
  console.log(`${title}: ${line()}`)
  title = ''
  if (done.records > done.accepted) console.log('records beyond these batches: a kill cut off the answer')
  if (violations.count > 0) console.log(`WRONG: ${violations.count}\n${violations.lines().join('\n')}`)
}

await runProgram({
  name: 'crash',
  help: HELP,
  options: {
    rounds: { type: 'string', default: '100' },
    seed: { type: 'string' },
    shared: { type: 'boolean', default: false },
  },
  run: async (values) => {
    const seed = seedOption(values.seed)
    const rounds = numberOption('rounds', values.rounds, 1, MAX_ROUNDS, { isWhole: true })
    console.log(`seed ${seed}`)
    title = `seed ${seed}, ${values.shared ? 'two nodes with Redis and NATS' : 'one node with its journal'}`
    try {
      await runAll({ rounds, seed, isShared: values.shared })
    } finally {
      summarize()
    }
    return violations.count === 0
  },
  onSignal: summarize,
})
