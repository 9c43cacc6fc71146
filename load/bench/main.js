// @ts-check
// `npm run bench`: the built service beside what it is measured against, on this machine, in a few minutes.

import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { endAll, MAIN } from '../../test/support/processes.js'
import { compare, cors, engines, otherCommit, otherNode } from './compare.js'
import { footprint } from './footprint.js'
import { latency } from './latency.js'
import { limits } from './limits.js'
import { overload } from './overload.js'
import { pinned } from './processes.js'
import { ensurePrograms } from './programs.js'
import { queues } from './queues.js'
import { decode, memory, throughput } from './sections.js'
import { removeFolders, temporaryFolder } from './servers.js'
import { slowQueue } from './slow-queue.js'
import { spool } from './spool.js'
import { sync } from './sync.js'
import { tenants } from './tenants.js'
import { tls } from './tls.js'
import { twoCores } from './two-cores.js'
import { watchers } from './watchers.js'

const SECTIONS = {
  throughput,
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
const HELP = `Usage: npm run bench -- [OPTIONS]

  --quick           shorter runs and fewer of them; without --only in two minutes throughput, with a verdict beside docs/performance.md, and latency
  --only SECTION    one of ${Object.keys(SECTIONS).join(', ')}; may be given again
  --compare COMMIT  measures only this: the throughput of what is built here beside that commit, by turns
  --compare-node PROGRAM
                    the same on this Node beside another one, such as "$(tools/node24.sh)/node"
  --rows TEXT       when it compares: only rows with this text in their names, such as "64 connections"
  --json FILE       writes every number to a file
  --markdown        tables as Markdown
SECONDS=N           length of the memory run (20, quick 8); it writes about 50 MB a second to disk
`

async function main() {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string', multiple: true },
      compare: { type: 'string' },
      'compare-node': { type: 'string' },
      rows: { type: 'string', default: '' },
      json: { type: 'string' },
      markdown: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) {
    console.log(HELP)
    return
  }
  const { compare: commit, 'compare-node': node } = values
  if ([commit, node, values.only].filter((value) => value !== undefined).length > 1) {
    throw new Error(`--compare, --compare-node and --only: one of them alone\n${HELP}`)
  }
  const chosen = values.only ?? (values.quick ? QUICK : Object.keys(SECTIONS))
  const unknown = chosen.filter((name) => !Object.hasOwn(SECTIONS, name))
  if (unknown.length > 0) throw new Error(`no such section: ${unknown.join(', ')}\n${HELP}`)
  const seconds = Number(process.env.SECONDS ?? (values.quick ? 8 : 20))
  if (!(seconds >= 2)) throw new Error('SECONDS must be a number of at least 2')
  if (!existsSync(MAIN)) throw new Error('the service is not built: npm run build')
  ensurePrograms(['wrk'])

  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}, Node ${process.version}`
  console.log(`${machine}\n`)
  if (!pinned) console.log('One core only: server and load share it, so the rates below tell little.\n')
  const options = {
    quick: values.quick,
    markdown: values.markdown,
    rows: values.rows,
    seconds,
    folder: temporaryFolder(),
    progress: (/** @type {string} */ line) => process.stderr.write(`… ${line}\n`),
  }
  /** @type {Record<string, unknown>} */
  const numbers = { machine }
  const other =
    commit !== undefined
      ? await otherCommit(commit, options.progress)
      : node !== undefined
        ? otherNode(node)
        : undefined
  const sections =
    other === undefined
      ? /** @type {(keyof typeof SECTIONS)[]} */ (chosen).map((name) => ({ name, measure: SECTIONS[name] }))
      : [{ name: 'compare', measure: (/** @type {typeof options} */ given) => compare(given, other) }]
  for (const { name, measure } of sections) {
    const section = await measure(options)
    numbers[name] = section.numbers
    console.log(section.text)
  }
  if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(numbers, null, 2)}\n`)
}

// A signal ends every process, and nothing more can be started: whatever the run waits for then fails, and it ends.
let interrupted = false
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
  process.on(signal, () => {
    interrupted = true
    void endAll()
  })
}

main()
  .catch((/** @type {unknown} */ error) => {
    process.exitCode = interrupted ? 130 : 1
    if (!interrupted) console.error(`bench: ${error instanceof Error ? error.message : String(error)}`)
  })
  .finally(async () => {
    await endAll()
    removeFolders()
  })
