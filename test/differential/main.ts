// The command: judges bodies made by seed, prints how it goes on, and ends with a summary, also where it is interrupted.

import { setImmediate as turn } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Judge } from './judge.ts'
import { emptySummary, type Fault, faultsOf, runSeeds, type Summary } from './run.ts'

const HELP = `usage: npm run differential -- [--bodies N] [--seed S]

  --bodies N  how many seeds to judge, default 100000; a seed has one body, or two that follow each other in memory
  --seed S    of the first one, default 1; the others follow it
`
const SEEDS_IN_A_TURN = 500
const REPORT_EVERY_MS = 5000
const MAX_SEED = 2 ** 32

const values = options()
if (values === null) process.exitCode = 2
else if (values.help === true) print(HELP)
else process.exitCode = await differential(Number(values.bodies ?? 100_000), Number(values.seed ?? 1))

/** null: they are wrong, which was said. */
function options() {
  try {
    const known = {
      bodies: { type: 'string' },
      seed: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    } as const
    return parseArgs({ options: known }).values
  } catch (error) {
    process.stderr.write(`differential: ${error instanceof Error ? error.message : String(error)}\n${HELP}`)
    return null
  }
}

async function differential(seeds: number, first: number): Promise<number> {
  if (!Number.isInteger(seeds) || seeds < 1 || !Number.isInteger(first) || first < 0 || first + seeds > MAX_SEED) {
    process.stderr.write(
      'differential: --bodies from 1 and --seed from 0, integers, together at most 4294967296; see --help\n',
    )
    return 2
  }
  const interrupt = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupt.abort())
  const judge = new Judge()
  const summary = emptySummary()
  const startedAtMs = performance.now()
  let reportedAtMs = startedAtMs
  let shown = 0
  while (summary.seeds < seeds && !interrupt.signal.aborted) {
    const count = Math.min(SEEDS_IN_A_TURN, seeds - summary.seeds)
    runSeeds(first + summary.seeds, count, judge, () => new Judge(), summary)
    for (; shown < summary.faults.length; shown++) printFault(summary.faults[shown])
    if (performance.now() - reportedAtMs > REPORT_EVERY_MS) {
      reportedAtMs = performance.now()
      print(`${lineOf(summary)}, ${paceOf(summary, startedAtMs)}`)
    }
    await turn()
  }
  printSummary(summary, first, startedAtMs)
  if (faultsOf(summary) > 0) return 1
  return interrupt.signal.aborted ? 130 : 0
}

function printFault({ seed, verdict, repeat, body }: Fault): void {
  const command =
    repeat === null
      ? 'shown again only after more bodies than the last thousand'
      : `repeat with --seed ${repeat.from} --bodies ${repeat.count}`
  print(`FAULT, seed ${seed}: ${verdict.judged}: ${verdict.detail}; ${command}`)
  print(`  the body in base64: ${body.toString('base64')}`)
}

function lineOf({ bodies, counts }: Summary): string {
  return `${bodies} bodies, ${counts.accepted} accepted, ${counts['not sure']} not sure, ${counts['false accept']} false accepts`
}

function paceOf({ bodies }: Summary, startedAtMs: number): string {
  const { user, system } = process.cpuUsage()
  const perSecond = Math.round((bodies * 1000) / (performance.now() - startedAtMs))
  return `${perSecond} bodies/s, ${((user + system) / bodies).toFixed(0)} µs of CPU a body`
}

function printSummary(summary: Summary, first: number, startedAtMs: number): void {
  const { seeds, bodies, counts, neededValidator } = summary
  print(`seeds ${first} to ${first + seeds - 1}: ${seeds}`)
  print(`bodies: ${bodies}`)
  print(`accepted by the scanner: ${counts.accepted}`)
  print(`not sure: ${counts['not sure']} (of every eighth seed's, ${neededValidator} are valid all the same)`)
  print(`false accepts: ${counts['false accept']}`)
  print(`different numbers: ${counts['different numbers']}`)
  print(`disagreements of the other decoders: ${counts['other decoders disagree']}`)
  print(paceOf(summary, startedAtMs))
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
