// @ts-check
// What each program of load/ does around its own work: reads its options, says its help, and ends all that it started, whatever
// happens.

import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { atEnd, endAll, MAIN } from '../../test/support/processes.js'

const INTERRUPTED = 130

/**
 * Ends the process: with 1 where `run` gave false or failed, and with 130 after a signal, which ends every process at once;
 * whatever the run still waits for is left. `takesWords`: words that are no options.
 * @template {NonNullable<import('node:util').ParseArgsConfig['options']>} O
 * @param {{ name: string, help: string, options: O, takesWords?: boolean, run: (values: ReturnType<typeof parseArgs<{ options: O }>>['values'], words: string[]) => Promise<boolean> | boolean,
 *   onSignal?: () => void }} program
 */
export async function runProgram({ name, help, options, takesWords = false, run, onSignal = () => {} }) {
  let isInterrupted = false
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
    process.once(signal, () => {
      isInterrupted = true
      onSignal()
      void endAll().finally(() => process.exit(INTERRUPTED))
    })
  }
  try {
    const isHelp = /** @type {const} */ ({ type: 'boolean', short: 'h', default: false })
    const all = { options: { ...options, help: isHelp }, allowPositionals: takesWords }
    const { values, positionals } = parseArgs(all)
    if ('help' in values && values.help === true) console.log(help)
    else {
      if (!existsSync(MAIN)) throw new Error('the service is not built: npm run build')
      if (!(await run(values, positionals))) process.exitCode = 1
    }
  } catch (error) {
    process.exitCode = 1
    if (!isInterrupted) console.error(`${name}: ${error instanceof Error ? error.message : String(error)}`)
  }
  if (isInterrupted) return
  await endAll()
  // What was printed goes out first.
  process.stdout.write('', () => process.exit())
}

/** An option that is a number. @param {string} name @param {string | undefined} text @param {number} least @param {number} most @param {{ isWhole?: boolean }} [how] */
export function numberOption(name, text, least, most, { isWhole = false } = {}) {
  const value = Number(text)
  if (value >= least && value <= most && (!isWhole || Number.isInteger(value))) return value
  throw new Error(`--${name}: must be ${isWhole ? 'an integer' : 'a number'} from ${least} to ${most}; see --help`)
}

/** The seed that was given, or one that is made up. @param {string | undefined} text */
export function seedOption(text) {
  return text === undefined ? Math.floor(Math.random() * 1e9) : numberOption('seed', text, 0, 2 ** 32 - 1)
}

/** Removed at the end, unless it is kept: then its name is printed. @param {string} name @param {{ isKept?: boolean }} [how] */
export function temporaryFolder(name, { isKept = false } = {}) {
  const folder = mkdtempSync(join(tmpdir(), `sluice-${name}-`))
  atEnd(() => {
    if (isKept) console.log(`kept: ${folder}`)
    else rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })
  return folder
}
