// The command: runs histories, generated from seeds or by name, and prints the smallest one that shows a violation.

import { parseArgs } from 'node:util'
import { generate } from './generate.ts'
import { describe, HISTORY_KINDS, type History, type HistoryKind } from './history.ts'
import { LuaMachine } from './lua.ts'
import { AWAITED, type Oracle, type Violation } from './oracle.ts'
import { run } from './run.ts'
import { SCENARIOS } from './scenarios.ts'
import { shrink } from './shrink.ts'

const HELP = `usage: npm run simulate -- [--runs N] [--seed S] [--scenario NAME]

  --runs N         histories to run, default 1000
  --seed S         of the first one, default 1; the others follow it
  --scenario NAME  only this kind of history: ${HISTORY_KINDS.join(', ')};
                   or one that showed a fault once: ${Object.keys(SCENARIOS).join(', ')}
`
const REPORT_EVERY_RUNS = 500

const { values } = parseArgs({
  options: {
    runs: { type: 'string' },
    seed: { type: 'string' },
    scenario: { type: 'string' },
    help: { type: 'boolean' },
  },
})
if (values.help === true) {
  process.stdout.write(HELP)
} else {
  process.exitCode = await simulate(Number(values.runs ?? 1000), Number(values.seed ?? 1), values.scenario ?? null)
}

async function simulate(runs: number, firstSeed: number, scenario: string | null): Promise<number> {
  const isKind = HISTORY_KINDS.includes(scenario as HistoryKind)
  if (
    !Number.isInteger(runs) ||
    !Number.isInteger(firstSeed) ||
    (scenario !== null && !isKind && !Object.hasOwn(SCENARIOS, scenario))
  ) {
    process.stderr.write(HELP)
    return 2
  }
  const lua = await LuaMachine.open()
  const oracleOf = async (history: History): Promise<Oracle | null> =>
    (await run(history, lua)).violation?.oracle ?? null
  const failures = new Map<Oracle, number[]>()
  /** Histories with each kind of fault. */
  const shares = new Map<string, number>()
  const startedAtMs = performance.now()
  const cpuAtStart = process.cpuUsage()
  let requests = 0
  let done = 0
  const printProgress = (): void => {
    const cpuMs = process.cpuUsage(cpuAtStart).user / 1000
    const pace = `${(cpuMs / done).toFixed(1)} ms of CPU a run, ${Math.round((done * 60_000) / (performance.now() - startedAtMs))} runs a minute`
    const failed = [...failures.values()].reduce((sum, seeds) => sum + seeds.length, 0)
    print(`${done} runs, ${requests} requests, ${failed} failed; ${pace}`)
  }
  const named = scenario !== null && !isKind ? SCENARIOS[scenario] : null
  const only = named?.history ?? null
  for (let seed = firstSeed; seed < firstSeed + (only === null ? runs : 1); seed++) {
    const history =
      only ?? generate(seed, isKind ? (scenario as HistoryKind) : HISTORY_KINDS[seed % HISTORY_KINDS.length])
    for (const kind of new Set(history.steps.map(({ kind }) => kind))) {
      if (kind !== 'send') shares.set(kind, (shares.get(kind) ?? 0) + 1)
    }
    const { violation, sent, refused } = await run(history, lua)
    requests += sent
    done++
    const wanted = named?.refused ?? refused
    if (refused !== wanted) {
      print(`FAILED: ${history.name}: ${refused} requests were refused, and should have been ${wanted}`)
      return 1
    }
    if (violation !== null) {
      const seeds = failures.get(violation.oracle)
      if (seeds === undefined) failures.set(violation.oracle, [seed])
      else seeds.push(seed)
      print(`FAILED: ${history.name}, seed ${seed}: ${textOf(violation)}`)
      // Only the first of each oracle is shrunk; the others are likely the same bug.
      if (seeds === undefined) await printSmallest(history, violation, oracleOf, lua)
    }
    if (done % REPORT_EVERY_RUNS === 0) printProgress()
  }
  printProgress()
  for (const [kind, histories] of [...shares].toSorted(([, one], [, other]) => other - one))
    print(`  ${kind.padEnd(20)} in ${((100 * histories) / done).toFixed(1).padStart(5)}% of the histories`)
  for (const [oracle, reason] of Object.entries(AWAITED)) print(`not judged: "${oracle}", which awaits ${reason}`)
  for (const [oracle, seeds] of failures)
    print(`${oracle}: ${seeds.length} of ${done}, seeds ${seeds.slice(0, 20).join(' ')}`)
  return failures.size > 0 ? 1 : 0
}

async function printSmallest(
  history: History,
  { oracle }: Violation,
  oracleOf: (history: History) => Promise<Oracle | null>,
  lua: LuaMachine,
): Promise<void> {
  const least = await shrink(history, oracle, oracleOf)
  const { violation, notices } = await run(least, lua)
  print(`the smallest history that shows it:\n${describe(least)}`)
  if (violation !== null) print(`  ${textOf(violation)}`)
  for (const notice of notices.slice(0, 20)) print(`    log of ${notice}`)
}

function textOf({ oracle, atMs, detail }: Violation): string {
  return `${oracle} at ${atMs.toFixed(0)} ms: ${detail}`
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
