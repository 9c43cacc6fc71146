// Shared by all commands: their streams, exit codes and flags.

import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ParseArgsConfig, parseArgs, styleText } from 'node:util'
import type { Clock } from '../lib/clock.ts'
import { errorCode, errorMessage } from '../lib/errors.ts'
import { EXIT } from '../lib/exit.ts'
import { didYouMean } from '../lib/near.ts'
import { printableLines } from '../lib/printable.ts'

export interface Shell {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdin: NodeJS.ReadableStream
  readonly stdout: NodeJS.WritableStream
  readonly stderr: NodeJS.WritableStream
  /** stdout is a terminal. */
  readonly terminal: boolean
  /** stdin and stderr are terminals, so that a person can be asked. */
  readonly interactive: boolean
  /** stdout may be coloured. */
  readonly colour: boolean
  readonly clock: Clock
}

/** The exports of a command's module. `run` returns the exit code. */
export interface Command {
  readonly help: string
  run(args: readonly string[], shell: Shell): Promise<number>
}

export { EXIT }

/** The command line is wrong: exit code 2. */
export class UsageError extends Error {}

type Options = NonNullable<ParseArgsConfig['options']>
type Flags<O extends Options> = ReturnType<
  typeof parseArgs<{ args: string[]; options: O; allowPositionals: true; strict: true }>
>

/** Reads flags and exactly the named `operands`; throws a UsageError otherwise. An unknown flag is named first. */
export function readFlags<const O extends Options>(
  args: readonly string[],
  options: O,
  operands: readonly string[] = [],
): Flags<O> {
  const unknown = unknownFlag(args, options)
  if (unknown !== null) throw new UsageError(unknown)
  let flags: Flags<O>
  try {
    flags = parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
  } catch (error) {
    if (errorCode(error)?.startsWith('ERR_PARSE_ARGS')) throw new UsageError(errorMessage(error))
    throw error
  }
  const missing = operands.find((_, at) => (flags.positionals[at] ?? '') === '')
  if (missing !== undefined) throw new UsageError(`${missing} is missing`)
  const extra = flags.positionals[operands.length]
  if (extra !== undefined) throw new UsageError(`unexpected ${JSON.stringify(extra)}`)
  return flags
}

function unknownFlag(args: readonly string[], options: Options): string | null {
  const { tokens } = parseArgs({ args: [...args], options, allowPositionals: true, strict: false, tokens: true })
  for (const token of tokens) {
    if (token.kind !== 'option' || Object.hasOwn(options, token.name)) continue
    const near = didYouMean(
      token.rawName,
      Object.keys(options).map((name) => `--${name}`),
    )
    return `no such option: ${token.rawName}${near}`
  }
  return null
}

export type Colour = 'green' | 'red' | 'yellow' | 'bold' | 'dim'

export function paint(colour: Colour, text: string, shell: Pick<Shell, 'colour'>): string {
  return shell.colour ? styleText(colour, text, { validateStream: false }) : text
}

/** SIGINT and SIGTERM abort the signal of `work`, which then has so long to end. null: it was interrupted, and gave no answer. */
export async function untilInterrupted<T>(
  work: (signal: AbortSignal) => Promise<T>,
  { leaveMs }: { leaveMs: number },
): Promise<T | null> {
  const interrupted = new AbortController()
  const interrupt = (): void => interrupted.abort()
  process.once('SIGINT', interrupt)
  process.once('SIGTERM', interrupt)
  try {
    const late = once(interrupted.signal, 'abort').then(() => sleep(leaveMs, null))
    return await Promise.race([work(interrupted.signal), late])
  } catch (error) {
    // What an interruption broke is no error.
    if (interrupted.signal.aborted) return null
    throw error
  } finally {
    process.off('SIGINT', interrupt)
    process.off('SIGTERM', interrupt)
  }
}

/** A message for whoever runs the command: nothing that it quotes steers the terminal. */
export function say({ stderr }: Pick<Shell, 'stderr'>, message: string): Promise<void> {
  return print(stderr, printableLines(message))
}

/** Takes the place of the line on a terminal. The text is the command's own. */
export function showProgress({ stderr }: Pick<Shell, 'stderr'>, text: string): void {
  stderr.write(`\r${text}`)
}

/** Waits for a slow reader, so that output does not accumulate in memory. */
export async function print(stream: NodeJS.WritableStream, text: string | Uint8Array): Promise<void> {
  if (stream.write(text)) return
  await new Promise<void>((resolve) => stream.once('drain', resolve))
}

/** Asked on stderr, so that stdout holds data alone. Whatever is not a yes is a no: also Ctrl-C, and the input's end. */
export function isConfirmed(question: string, { stdin, stderr }: Pick<Shell, 'stdin' | 'stderr'>): Promise<boolean> {
  const asker = createInterface({ input: stdin, output: stderr })
  return new Promise((done) => {
    asker.once('close', () => done(false))
    asker.question(question, (answer) => {
      done(/^y(es)?$/i.test(answer.trim()))
      asker.close()
    })
  })
}
