#!/usr/bin/env node
// The process of the `sluice` program.

import { refuseOldNode } from '../bin/node-version.js'
import { systemClock } from './lib/clock.ts'
import { errorCode } from './lib/errors.ts'
import { EXIT } from './lib/exit.ts'

refuseOldNode()
// Not before: it imports what an old Node lacks.
const { program } = await import('./program.ts')
const { stdin, stdout, stderr, env } = process
const args = process.argv.slice(2)
// Its output may fail and it goes on.
const isService = args[0] === 'serve'
stdout.on('error', (error) => {
  if (isService) return
  // EIO: the terminal is gone.
  if (errorCode(error) !== 'EPIPE' && errorCode(error) !== 'EIO') throw error
  // A reader that closes the pipe early (`sluice tail | head`) ends a command successfully.
  process.exit(EXIT.ok)
})
stderr.on('error', (error) => {
  if (!isService) throw error
})
const terminal = stdout.isTTY
const colour = terminal && (env.NO_COLOR ?? '') === ''
const interactive = stdin.isTTY && stderr.isTTY
const exitCode = await program(args, { env, stdin, stdout, stderr, terminal, interactive, colour, clock: systemClock })
// This write completes after all others, so that no output is cut off.
stdout.write('', () => process.exit(exitCode))
