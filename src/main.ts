#!/usr/bin/env node
// The process of the `sluice` program.

import { refuseOldNode } from '../bin/node-version.js'
import { systemClock } from './lib/clock.ts'
import { errorCode } from './lib/errors.ts'
import { EXIT } from './lib/exit.ts'
import { standardOutput } from './lib/standard-output.ts'

refuseOldNode()
// Not before: it imports what an old Node lacks.
const { asksForHelp, program } = await import('./program.ts')
const { stdin, stderr, env } = process
const args = process.argv.slice(2)
const stdout = standardOutput()
// Its output may fail and it goes on.
const isService = args[0] === 'serve' && !asksForHelp(args)
const terminal = process.stdout.isTTY
stdout.on('error', (error) => {
  if (isService) return
  const isGone = errorCode(error) === 'EPIPE' || (terminal && errorCode(error) === 'EIO')
  if (!isGone) {
    stderr.write(`sluice ${args[0]}: its output cannot be written: ${error.message}\n`)
    process.exit(EXIT.failed)
  }
  // A reader has seen enough (`sluice tail | head`). Any other command comes to its end, whose exit code says what it found.
  if (args[0] === 'tail') process.exit(EXIT.ok)
})
// There is nowhere to say it.
stderr.on('error', () => {})
const colour = terminal && (env.NO_COLOR ?? '') === ''
const interactive = stdin.isTTY && stderr.isTTY
const exitCode = await program(args, { env, stdin, stdout, stderr, terminal, interactive, colour, clock: systemClock })
// This write completes after all others, so that no output is cut off, and a failed one is reported before the process ends.
stdout.write('', () => setImmediate(() => process.exit(exitCode)))
