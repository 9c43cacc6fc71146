// @ts-check
// What a second core gives one process: its decoders, disk and compiler work there. The load shares that core, so the rate
// is the least that it gives; the thread that reads HTTP is what no further core helps.

import { nameOf, SEED } from './cases.js'
import { LOAD_CORE, on, pinned, SERVER_CORE } from './processes.js'
import { ensurePrograms } from './programs.js'
import { startCluster } from './queues.js'
import { median, medianRatio, number, table } from './report.js'
import { startService } from './servers.js'
import { unlessVoid } from './void-runs.js'
import { runWrk, writeBodies } from './wrk.js'

/** @type {import('./wrk.js').Case[]} */
const CASES = [
  { events: 1, keyed: false, varied: true },
  { events: 100, keyed: false, varied: false },
  { events: 100, keyed: false, varied: true },
]

/** By turns on one core and on two. @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function twoCores(options) {
  if (!pinned) return { numbers: null, text: 'Two cores: not measured, there is one\n' }
  ensurePrograms(['redis-server', 'nats-server'])
  const rounds = options.quick ? 1 : 5
  const seconds = options.quick ? 1 : 2
  const numbers = []
  for (const kind of CASES) {
    options.progress(`two cores: ${nameOf(kind)}`)
    const bodies = await writeBodies(options.folder, kind, SEED)
    const one = await startService({ before: on(SERVER_CORE) })
    const two = await startService({ before: ['taskset', '-c', `${SERVER_CORE},${LOAD_CORE}`] })
    const pairs = await byTurns({ one, two }, kind, bodies, { rounds, seconds })
    await one.stop()
    await two.stop()
    numbers.push({ kind, pairs })
  }
  const head = [
    'request',
    'one core /s',
    'two cores /s',
    'ratio',
    'CPU µs, one',
    'two',
    'of it the front end',
    'most, by it',
  ]
  const rows = numbers.map(({ kind, pairs }) => {
    const of = (/** @type {'one' | 'two'} */ which, /** @type {keyof import('./wrk.js').Measured} */ name) =>
      pairs.map((pair) => pair[which][name])
    const frontEndUs = median(of('two', 'mainThreadUsPerRequest'))
    return [
      nameOf(kind),
      number(median(of('one', 'perSecond'))),
      number(median(of('two', 'perSecond'))),
      number(medianRatio(of('two', 'perSecond'), of('one', 'perSecond')), 2),
      number(median(of('one', 'cpuUsPerRequest')), 1),
      number(median(of('two', 'cpuUsPerRequest')), 1),
      number(frontEndUs, 1),
      number(1e6 / frontEndUs),
    ]
  })
  const title = `One process on one core and on two, of which the load has its part; medians of ${rounds}, by turns`
  const text = table(title, head, rows, options)
  const processes = await twoProcesses({ rounds, seconds, options })
  return { numbers: { cores: numbers, processes: processes.numbers }, text: `${text}\n${processes.text}` }
}

/**
 * @param {Record<'one' | 'two', import('./servers.js').Server>} servers @param {import('./wrk.js').Case} kind
 * @param {Awaited<ReturnType<typeof writeBodies>>} bodies @param {{ rounds: number, seconds: number }} how
 */
async function byTurns({ one, two }, kind, bodies, { rounds, seconds }) {
  const measure = (/** @type {typeof one} */ server, /** @type {number} */ forSeconds) =>
    unlessVoid(nameOf(kind), () => runWrk(server, bodies, { keyed: kind.keyed, seconds: forSeconds }))
  for (const server of [one, two]) await measure(server, 3)
  /** @type {Record<'one' | 'two', import('./wrk.js').Measured>[]} */
  const pairs = []
  for (let round = 0; round < rounds; round++) {
    pairs.push({ one: await measure(one, seconds), two: await measure(two, seconds) })
  }
  return pairs
}

/**
 * What a request costs with two processes, on the one core that the load leaves: on two cores of their own they take so many
 * times the requests of one.
 * @param {{ rounds: number, seconds: number, options: import('./sections.js').Options }} how
 */
async function twoProcesses({ rounds, seconds, options }) {
  const kind = CASES[0]
  options.progress('two processes')
  const bodies = await writeBodies(options.folder, kind, SEED)
  const one = await startCluster()
  const two = await startCluster({ env: { SLUICE_PROCESSES: '2' } })
  const pairs = await byTurns({ one: one.cluster, two: two.cluster }, kind, bodies, { rounds, seconds })
  await one.stop()
  await two.stop()
  const [oneUs, twoUs] = /** @type {const} */ (['one', 'two']).map((which) =>
    pairs.map((pair) => pair[which].cpuUsPerRequest),
  )
  const head = ['Redis and JetStream', 'CPU µs, one process', 'two', 'on two cores, by it']
  const rows = [
    [nameOf(kind), number(median(oneUs), 1), number(median(twoUs), 1), number(2 * medianRatio(oneUs, twoUs), 2)],
  ]
  return { numbers: pairs, text: table('SLUICE_PROCESSES=2 on one core', head, rows, options) }
}
