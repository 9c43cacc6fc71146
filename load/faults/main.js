// @ts-check
// `npm run faults`: nodes of the built service over real Redis and NATS, a steady load with retries, and a fault every
// few seconds. In the end every 202 is in the stream exactly once, every limit held, every counter is right.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { percentilesOf } from '../bench/percentiles.js'
import { createRng } from '../payloads.js'
import { buildCommit } from '../shared/other-commit.js'
import { numberOption, runProgram, seedOption, temporaryFolder } from '../shared/program.js'
import { Connections } from '../shared/send.js'
import { cameTrue } from '../shared/until.js'
import { Violations } from './checks.js'
import { CHANGE, episodes, FAULTS, happen } from './faults.js'
import { planApps, prepareGround } from './ground.js'
import { judge } from './judge.js'
import { Load } from './load.js'
import { checkOverloads, makeOutage } from './outage.js'
import { faultLog, report } from './report.js'
import { startWatch, untilReady } from './watch.js'

const HELP = `Usage: npm run faults -- [OPTIONS]

  --minutes N          how long faults are made (10); the checks take a minute or two more
  --nodes N            nodes of the service (2)
  --rate N             new batches a second (200)
  --fault-every N      mean seconds between the end of a fault and the next (5)
  --faults A,B         only these: ${FAULTS.join(', ')} (with --beside)
  --beside COMMIT      every second node begins as that commit, and the fault node-change is made, too:
                       a node goes on as the other of the two
  --outage N           another run: each node has a spool, and all of three NATS servers are gone for N minutes. Nodes are
                       killed meanwhile and while they send what they spooled, --fault-every apart
  --kills N            with --outage: kills so many nodes at the most (1000); 0 for latencies that no start disturbs
  --seed N             the same faults in the same order (default: made up, and printed)
  --keep               keeps the folder: logs, data, and what became of each batch that was retried
`
/** What is sent is remembered until the end: about 0.5 KB a batch. */
const MAX_BATCHES = 3_000_000
const READY_TIMEOUT_MS = 30_000
/** Calm before the first fault. */
const WARM_UP_MS = 3000
/** Longer than the tries of the last batch can go on. */
const RETRIES_END_MS = 150_000

/** @param {Readonly<Record<string, string | undefined>>} values */
function readOptions(values) {
  const number = (/** @type {string} */ name, /** @type {number} */ least, /** @type {number} */ most) =>
    numberOption(name, values[name], least, most)
  const { beside = null } = values
  const possible = FAULTS.filter((kind) => kind !== CHANGE || beside !== null)
  const named = values.faults?.split(',') ?? possible
  const unknown = named.filter((name) => !possible.some((kind) => kind === name))
  if (unknown.length > 0) throw new Error(`--faults: no such fault: ${unknown.join(', ')}`)
  const outageMinutes = values.outage === undefined ? null : number('outage', 0.1, 24 * 60)
  const options = {
    // With an outage, what the load's limits go by.
    minutes: outageMinutes ?? number('minutes', 0.1, 24 * 60),
    outageMinutes,
    kills: number('kills', 0, 1000),
    nodes: number('nodes', 1, 16),
    perSecond: number('rate', 1, 5000),
    faultEveryMs: number('fault-every', 0.5, 3600) * 1000,
    kinds: possible.filter((kind) => named.some((name) => name === kind)),
    beside,
    seed: seedOption(values.seed),
  }
  if (options.minutes * 60 * options.perSecond > MAX_BATCHES) {
    throw new Error(`--minutes, --rate: more than ${MAX_BATCHES} batches would not fit into memory`)
  }
  return options
}

/**
 * @param {ReturnType<typeof readOptions>} options @param {string} folder
 * @param {import('./servers.js').Version | null} beside @returns {Promise<boolean>} whether all is well
 */
async function runFaults(options, folder, beside) {
  const violations = new Violations()
  /** @type {import('./servers.js').LogLine[]} */
  const logLines = []
  const apps = planApps(options)
  const ground = await prepareGround({
    folder,
    apps,
    nodes: options.nodes,
    beside,
    isSpooled: options.outageMinutes !== null,
    onLog: (line) => void (line.level === 'info' || logLines.push(line)),
    onDeath: (text) => violations.add('a node ended by itself', text),
  })
  const { nodes, stores } = ground
  if (stores === null) throw new Error('a run of faults needs Redis and NATS')
  if ((await untilReady(nodes, READY_TIMEOUT_MS)) === null) throw new Error(`the nodes are not ready; see ${folder}`)
  const connections = new Connections()
  const onProblem = (/** @type {string} */ text) => violations.add('seen on the way', text)
  const watch = startWatch({ nodes, onProblem })
  const load = new Load({ apps, targets: nodes, perSecond: options.perSecond, seed: options.seed, connections })
  load.start()
  await sleep(WARM_UP_MS)
  const { outageMinutes } = options
  const over = { nodes, redis: stores.redis, nats: stores.nats, connections, onProblem }
  const { log, drained } =
    outageMinutes === null
      ? { log: await makeFaults(options, over, violations), drained: null }
      : await makeOutage(
          {
            seed: options.seed,
            outageMs: outageMinutes * 60_000,
            everyMs: options.faultEveryMs,
            killCount: options.kills,
            folder,
          },
          over,
          load,
          violations,
        )
  load.stop()
  const isOver = () => load.underWay === 0
  if (!(await cameTrue(isOver, RETRIES_END_MS))) violations.add('clients that never ended', String(load.underWay))
  connections.stop()
  await watch.stop()
  await writeHistories(load.batches, join(folder, 'histories.ndjson'))
  const isSpooled = drained !== null
  const { figures, notes } = await judge({ ground, apps, load, log, logLines, violations, isSpooled })
  const memory = watch.memory.map(({ mostMiB, lastMiB }) => `${lastMiB.toFixed(0)} (most ${mostMiB.toFixed(0)})`)
  const rows = /** @type {[string, string | number][]} */ ([
    ['seed', options.seed],
    ['minutes, nodes', `${options.minutes}, ${options.nodes}`],
    ['node memory, MiB', memory.join(', ')],
    ['metrics pages summed', watch.scrapes()],
    ...figures,
    ...(drained === null ? [] : outageRows(drained, load, watch.overloads(), violations)),
  ])
  console.log(report({ log, load, figures: rows }))
  for (const note of notes) console.log(`  note: ${note}`)
  if (violations.count === 0) {
    console.log('  nothing wrong')
    return true
  }
  console.log(`\nfault log\n${faultLog(log)}\nWRONG: ${violations.count}\n${violations.lines().join('\n')}`)
  return false
}

/**
 * @param {import('./outage.js').Drained} drained @param {Load} load @param {Record<string, number>} reasons
 * @param {Violations} violations @returns {[string, string | number][]}
 */
function outageRows({ mostBatches, drainMs, sentPerSecond }, load, reasons, violations) {
  checkOverloads({ tries: load.counts.tries, overloaded: load.counts.overloaded, reasons }, violations)
  const drain = drainMs === null ? 'not in time' : `${(drainMs / 1000).toFixed(0)} s, ${sentPerSecond} batches/s`
  const whys = Object.entries(reasons).map(([reason, count]) => `${count} ${reason}`)
  return [
    ['spooled at most', `${mostBatches} batches`],
    ['sent after NATS was back', drain],
    ['503s by reason', whys.join(', ') || 'none'],
    ...latencyRows(load.latencies),
  ]
}

/** By what went on meanwhile. @param {ReadonlyMap<string, readonly number[]>} latencies @returns {[string, string][]} */
function latencyRows(latencies) {
  return [...latencies].map(([phase, allMs]) => {
    const { p50, p99 } = percentilesOf(allMs)
    return [`202 ${phase}, ms`, `p50 ${p50?.toFixed(1)}, p99 ${p99?.toFixed(1)} (${allMs.length} answers)`]
  })
}

/**
 * @param {ReturnType<typeof readOptions>} options @param {import('./faults.js').Ground} ground @param {Violations} violations
 * @returns {Promise<import('./faults.js').EpisodeEntry[]>}
 */
async function makeFaults({ seed, kinds, nodes, faultEveryMs, minutes }, ground, violations) {
  const log = []
  const endMs = Date.now() + minutes * 60_000
  for (const { faults, spellMs } of episodes({ rng: createRng(seed), kinds, nodes, everyMs: faultEveryMs })) {
    if (Date.now() >= endMs) break
    const startedMs = Date.now()
    const entries = await Promise.all(faults.map((fault) => happen(fault, ground)))
    const healedMs = Date.now()
    const readyMs = await untilReady(ground.nodes, READY_TIMEOUT_MS)
    if (readyMs === null) violations.add('not ready again', `${READY_TIMEOUT_MS / 1000} s after ${faults[0].kind}`)
    process.stderr.write(
      `${entries.map(({ kind, target }) => `${kind} ${target}`).join(' + ')}, ${healedMs - startedMs} ms\n`,
    )
    await sleep(spellMs)
    log.push({ startedMs, healedMs, readyMs: readyMs ?? Date.now(), endedMs: Date.now(), entries })
  }
  return log
}

/** For whoever looks into what went wrong: every batch that was not simply accepted at its first try. @param {Load['batches']} batches @param {string} path */
async function writeHistories(batches, path) {
  const lines = batches
    .filter(({ isDoubtful, fresh, replays }) => isDoubtful || fresh !== 1 || replays > 0)
    .map(({ app, key, batchId, body, outcome, fresh, replays, history }) =>
      JSON.stringify({ app: app.appId, key, batchId, events: body.events, outcome, fresh, replays, history }),
    )
  await writeFile(path, `${lines.join('\n')}\n`)
}

await runProgram({
  name: 'faults',
  help: HELP,
  options: {
    minutes: { type: 'string', default: '10' },
    nodes: { type: 'string', default: '2' },
    rate: { type: 'string', default: '200' },
    'fault-every': { type: 'string', default: '5' },
    faults: { type: 'string' },
    beside: { type: 'string' },
    outage: { type: 'string' },
    kills: { type: 'string', default: '1000' },
    seed: { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
  run: async ({ keep, ...values }) => {
    const options = readOptions(values)
    const folder = temporaryFolder('faults', { isKept: keep })
    console.log(`seed ${options.seed}, folder ${folder}`)
    const other = options.beside === null ? null : await buildCommit(options.beside, console.log)
    return runFaults(options, folder, other && { name: other.commit, dist: join(other.tree, 'dist') })
  },
})
