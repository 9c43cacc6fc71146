// `npm run mutate`: plants one bug after the other in a copy of src/, and runs the tests that have to see it. A bug that
// nobody sees is printed as a survivor, and the command ends with 1.

import { parseArgs } from 'node:util'
import { ONE_MACHINE } from './one-machine.js'
import { SHARED_MODE } from './shared.js'
import { problemOf, Workspace } from './workspace.js'

/**
 * @typedef {object} Mutant
 * @property {string} name
 * @property {string} bug in plain words
 * @property {string} file below src/
 * @property {string} find exists once in the file
 * @property {string} replace
 * @property {readonly string[]} tests that may see it, nearest first: a test file, or `simulate NAME RUNS`
 */

const HELP = `usage: npm run mutate -- [--only shared|one-machine] [--name NAME] [--check]

  --only HALF  only the bugs of this half
  --name NAME  only this bug, or these, with commas between them
  --check      only look whether each bug can be planted
`

/** @type {Readonly<Record<string, readonly Mutant[]>>} */
const HALVES = { shared: SHARED_MODE, 'one-machine': ONE_MACHINE }

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    name: { type: 'string' },
    check: { type: 'boolean' },
    help: { type: 'boolean' },
  },
})
const halves = values.only === undefined ? Object.keys(HALVES) : [values.only]
const chosen = halves
  .flatMap((half) => HALVES[half] ?? [])
  .filter(({ name }) => (values.name ?? name).split(',').includes(name))
if (values.help === true || chosen.length === 0) {
  process.stdout.write(HELP)
  process.exitCode = values.help === true ? 0 : 2
} else {
  process.exitCode = await mutate(chosen, values.check === true)
}

/** @param {readonly Mutant[]} mutants @param {boolean} onlyChecks */
async function mutate(mutants, onlyChecks) {
  const workspace = await Workspace.open()
  let survivors = 0
  try {
    const problems = mutants.map((mutant) => problemOf(mutant)).filter((problem) => problem !== null)
    if (problems.length > 0) {
      process.stdout.write(`${problems.join('\n')}\n`)
      return 1
    }
    process.stdout.write(`${mutants.length} bugs can be planted\n`)
    if (onlyChecks) return 0
    for (const mutant of mutants) {
      const startedAtMs = performance.now()
      const seenBy = await workspace.seenBy(mutant)
      const seconds = ((performance.now() - startedAtMs) / 1000).toFixed(0)
      if (seenBy === null) survivors++
      const { name, bug } = mutant
      process.stdout.write(`${name.padEnd(5)} ${bug.padEnd(70)} ${seenBy ?? 'SURVIVED'} (${seconds} s)\n`)
    }
  } finally {
    workspace.remove()
  }
  process.stdout.write(`${mutants.length} bugs, ${mutants.length - survivors} seen, ${survivors} survived\n`)
  return survivors > 0 ? 1 : 0
}
