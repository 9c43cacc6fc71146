// @ts-check
// `npm run bench`: the built service beside what it is measured against, on this machine, in a few minutes.

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { busyLine, isBusy, loadNow, machineLine, machineOf } from '../shared/machine.js'
import { ROOT } from '../shared/node-flags.js'
import { runProgram, temporaryFolder } from '../shared/program.js'
import { compare, cors, engines, otherCommit, otherNode, rowsWith } from './compare.js'
import { curve } from './curve.js'
import { floor } from './floor.js'
import { footprint } from './footprint.js'
import { latency } from './latency.js'
import { limits } from './limits.js'
import { overload } from './overload.js'
import { pinned } from './processes.js'
import { profile } from './profile.js'
import { ensurePrograms } from './programs.js'
import { queues } from './queues.js'
import { decode, memory, throughput } from './sections.js'
import { slowQueue } from './slow-queue.js'
import { spool } from './spool.js'
import { sync } from './sync.js'
import { tenants } from './tenants.js'
import { tls } from './tls.js'
import { twoCores } from './two-cores.js'
import { lastWords, orUnmeasured } from './void-runs.js'
import { watchers } from './watchers.js'

const SECTIONS = {
  throughput,
  floor,
  curve,
  queues,
  limits,
  overload,
  'slow-queue': slowQueue,
  spool,
  sync,
  tls,
  footprint,
  decode,
  tenants,
  latency,
  memory,
  watchers,
  cors,
  engines,
  'two-cores': twoCores,
}
const QUICK = ['throughput', 'latency']
/** The members of the numbers that are of no section: machine, unmeasured. */
const OF_THE_RUN = 2
/** Where `--profile` leaves its graphs. */
const PROFILES = join(ROOT, 'load', 'reports', 'profile')
const HELP = `Usage: npm run bench -- [OPTIONS]

  --quick           shorter runs and fewer of them; without --only in two minutes throughput, with a verdict beside docs/lab/0.3.0.md, and latency
  --only SECTION    one of ${Object.keys(SECTIONS).join(', ')}; may be given again
  --compare COMMIT  measures only this: the throughput of what is built here beside that commit, by turns
  --compare-node PROGRAM
                    the same on this Node beside another one, such as "$(tools/node24.sh)/node"
  --rows TEXT       when it compares: only rows with this text in their names, such as "64 connections"
  --profile         leaves flame graphs of full load in load/reports/profile, and measures nothing else
  --hdr FOLDER      writes the latencies of each run at a fixed rate there, as HdrHistogram's plotters read them (.hgrm)
  --json FILE       writes every number and table to a file, with the machine, and what could not be measured
  --markdown        tables as Markdown
SECONDS=N           length of the memory run (20, quick 8); it writes about 50 MB a second to disk
`

/**
 * @typedef {{ quick: boolean, only?: string[] | undefined, compare?: string | undefined, 'compare-node'?: string | undefined, rows: string,
 *   profile: boolean, hdr?: string | undefined, json?: string | undefined, markdown: boolean }} Values
 */

/** @param {Values} values @returns {Promise<boolean>} whether anything was measured */
async function measure(values) {
  const { compare: commit, 'compare-node': node, only, profile: isProfile } = values
  if ([commit, node, only, isProfile || undefined].filter((value) => value !== undefined).length > 1) {
    throw new Error(`--compare, --compare-node, --profile and --only: one of them alone\n${HELP}`)
  }
  const chosen = values.only ?? (values.quick ? QUICK : Object.keys(SECTIONS))
  const unknown = chosen.filter((name) => !Object.hasOwn(SECTIONS, name))
  if (unknown.length > 0) throw new Error(`no such section: ${unknown.join(', ')}\n${HELP}`)
  if (rowsWith(values.rows).length === 0)
    throw new Error(`--rows ${values.rows}: no row has this in its name. The rows are:\n  ${rowsWith('').join('\n  ')}`)
  const seconds = Number(process.env.SECONDS ?? (values.quick ? 8 : 20))
  if (!(seconds >= 2)) throw new Error('SECONDS must be a number of at least 2')
  ensurePrograms(['wrk'])

  const folder = temporaryFolder('bench')
  const machine = machineOf(folder)
  const first = await loadNow()
  console.log(`${machineLine(machine, first)}\n`)
  if (isBusy(first)) console.log(`${busyLine(first)}\n`)
  if (!pinned) console.log('One core only: server and load share it, so the rates below tell little.\n')
  if (values.hdr !== undefined) await mkdir(values.hdr, { recursive: true })
  /** @type {Omit<import('./turns.js').Options, 'machine'>} */
  const options = {
    quick: values.quick,
    markdown: values.markdown,
    rows: values.rows,
    seconds,
    folder,
    histograms: values.hdr,
    unmeasured: [],
    progress: (/** @type {string} */ line) => process.stderr.write(`… ${line}\n`),
  }
  const sections = await sectionsOf(values, chosen, options.progress)
  const { numbers, busy } = await measureAll(sections, options, machine)
  if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(numbers, null, 2)}\n`)
  console.log(lastWords(options.unmeasured, busy))
  return Object.keys(numbers).length > OF_THE_RUN
}

/** @typedef {{ name: string, measure: (options: import('./turns.js').Options) => Promise<import('./turns.js').Section> }} Measuring */

/**
 * @param {Values} values
 * @param {readonly string[]} chosen @param {(line: string) => void} progress @returns {Promise<Measuring[]>}
 */
async function sectionsOf({ compare: commit, 'compare-node': node, profile: isProfile }, chosen, progress) {
  if (isProfile) return [{ name: 'profile', measure: (given) => profile(given, PROFILES) }]
  if (commit === undefined && node === undefined) {
    return /** @type {(keyof typeof SECTIONS)[]} */ (chosen).map((name) => ({ name, measure: SECTIONS[name] }))
  }
  const other = commit !== undefined ? await otherCommit(commit, progress) : otherNode(/** @type {string} */ (node))
  return [{ name: 'compare', measure: (given) => compare(given, other) }]
}

/**
 * A section that stays void is named, and the next ones go on.
 * @param {readonly Measuring[]} sections @param {Omit<import('./turns.js').Options, 'machine'>} options @param {import('../shared/machine.js').Machine} machine
 */
async function measureAll(sections, options, machine) {
  /** @type {Record<string, unknown>} */
  const numbers = { machine, unmeasured: options.unmeasured }
  /** @type {string[]} */
  const busy = []
  for (const { name, measure } of sections) {
    const load = await loadNow()
    if (isBusy(load)) busy.push(busyLine(load))
    const section = await orUnmeasured(options, name, () =>
      measure({ ...options, machine: machineLine(machine, load) }),
    )
    if (section === null) continue
    numbers[name] = {
      load,
      text: section.text,
      ...(typeof section.numbers === 'object' ? { numbers: section.numbers } : {}),
    }
    console.log(section.text)
  }
  return { numbers, busy }
}

await runProgram({
  name: 'bench',
  help: HELP,
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true },
    compare: { type: 'string' },
    'compare-node': { type: 'string' },
    rows: { type: 'string', default: '' },
    profile: { type: 'boolean', default: false },
    hdr: { type: 'string' },
    json: { type: 'string' },
    markdown: { type: 'boolean', default: false },
  },
  run: measure,
})
