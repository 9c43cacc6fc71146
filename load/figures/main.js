// @ts-check
// `npm run figures`: measures what README.md and docs/performance.md say in figures, and writes it there, with the picture of the
// curve and those of the console. A release runs it again.

import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SHARES } from '../bench/curve.js'
import { ROOT } from '../shared/node-flags.js'
import { runProgram, temporaryFolder } from '../shared/program.js'
import { FIGURES, pagesWith, readFigures } from './pages.js'

const HELP = `Usage: npm run figures -- [OPTIONS]

  --quick     short runs and 8 kills; prints what the pages would have, and writes nothing, nor pictures
  --rounds N  kills of the crash test (1000: about an hour); 0 keeps what the last run had
  --render    measures nothing: writes the pages again from the last run (load/figures/figures.json)
`
const QUICK_ROUNDS = '8'
const SEED = '20261130'
/** Of requests with 1, 10 and 100 events. */
const COSTS = 3
/** Sections whose table stands in the pages as it is printed. */
const PRINTED = ['memory', 'decode', 'overload', 'floor']

/** @param {{ quick: boolean, rounds: string, render: boolean }} values */
function writePages(values) {
  const figures = values.render ? readFigures() : measure(values.quick, values.quick ? QUICK_ROUNDS : values.rounds)
  const pages = pagesWith(figures)
  if (values.quick) {
    for (const [path, text] of pages) console.log(`== ${path}\n${marked(text)}`)
    return true
  }
  writeFileSync(FIGURES, `${JSON.stringify(figures, null, 2)}\n`)
  for (const [path, text] of pages) writeFileSync(join(ROOT, path), text)
  console.log(`written: ${[...pages.keys()].join(', ')}`)
  return true
}

/** What stands between marks; all of a picture. @param {string} text */
function marked(text) {
  const parts = [...text.matchAll(/<!-- (\w+): npm run figures -->\n([^]*?)<!-- \/\1 -->/g)].map(([, , part]) =>
    part.trim(),
  )
  return parts.length > 0 ? parts.join('\n\n') : text
}

/** @param {boolean} isQuick @param {string} rounds @returns {import('./pages.js').Figures} */
function measure(isQuick, rounds) {
  const json = join(temporaryFolder('figures'), 'bench.json')
  const quick = isQuick ? ['--quick'] : []
  const sections = ['curve', ...PRINTED].flatMap((name) => ['--only', name])
  run('load/bench/main.js', [...sections, '--markdown', '--json', json, ...quick])
  const { machine, unmeasured, curve, ...others } = JSON.parse(readFileSync(json, 'utf8'))
  // A rate may be missed in one round, and stand by the others.
  const isWhole = curve?.numbers.costs.length === COSTS && curve.numbers.points.length === SHARES.length
  if (!isWhole || PRINTED.some((name) => others[name] === undefined)) {
    const causes = unmeasured.map((/** @type {unknown} */ one) => JSON.stringify(one)).join('\n')
    throw new Error(
      `not everything could be measured, and nothing is written: run it again on a quiet machine\n${causes}`,
    )
  }
  if (!isQuick) run('tools/screenshots.js', [])
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const crash =
    rounds === '0' ? readFigures().crash : crashOf(run('load/crash/main.js', ['--rounds', rounds, '--seed', SEED]))
  const { load, numbers } = curve
  const printed = Object.fromEntries(PRINTED.map((name) => [name, others[name].text]))
  return {
    version,
    date: today(),
    machine,
    curve: { load, numbers },
    memory: memoryOf(others.memory),
    printed,
    crash,
  }
}

function today() {
  return new Date().toISOString().slice(0, 10)
}

/** @param {string} script @param {string[]} args */
function run(script, args) {
  const { status, stdout } = spawnSync(process.execPath, [join(ROOT, script), ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  process.stderr.write(stdout)
  if (status !== 0) throw new Error(`${script} ended with ${status}`)
  return stdout
}

/** What the README says of the engine that is used by default. @param {{ numbers: any }} memory of the bench */
function memoryOf({ numbers: [{ idle, loaded, result, connectionKb }] }) {
  return { idleMb: idle.resident, loadedMb: loaded.resident, connectionKb, perSecond: result.perSecond }
}

/** @param {string} output its last line has the result */
function crashOf(output) {
  const found = /seed (\d+), .*: (\d+) rounds, .* (\d+) batches answered 202, .* (\d+) lost, (\d+) twice/.exec(output)
  if (found === null) throw new Error(`the crash test gave no result:\n${output}`)
  const [seed, rounds, accepted, lost, twice] = found.slice(1).map(Number)
  return { date: today(), rounds, seed, accepted, lost, twice }
}

await runProgram({
  name: 'figures',
  help: HELP,
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string', default: '1000' },
    render: { type: 'boolean', default: false },
  },
  run: writePages,
})
