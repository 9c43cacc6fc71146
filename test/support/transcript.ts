// Runs transcripts: text in which a line `== claim` begins a test, `$ command` is what somebody types into bash, and the lines
// below it are all that it prints, stdout and stderr together, with `exit N` at their end where N is not 0. `…` stands for
// any text in a line, and for any lines where it is alone. SLUICE_TEST_RECORD=1 writes what is printed into the file instead.

import { spawn } from 'node:child_process'
import { closeSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { launch } from './processes.js'
import { eventually, makeFolder } from './service.ts'

const TIMEOUT_MS = 100_000
const IS_RECORDING = process.env['SLUICE_TEST_RECORD'] === '1'
const PRELUDE = resolve(import.meta.dirname, 'transcript.sh')
const ENVIRONMENT = { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '/' }
/** `SLUICE_TEST_DECODER=simdjson` holds the other decoder to the same tests. */
const DECODER = process.env['SLUICE_TEST_DECODER']
const COMMAND_SERVER = resolve(import.meta.dirname, 'command-server.js')
const PROGRAMS = { NODE: process.execPath, MAIN: resolve('dist/main.js') }
/** Ends what a command printed, before its exit code. */
const END = '\u001e'

interface Step {
  readonly command: string
  readonly expected: string
}

interface Claim {
  readonly name: string
  readonly comment: string
  readonly steps: readonly Step[]
}

export interface TranscriptOptions {
  /** Before each test: what it finds beside its folder. */
  readonly prepare?: () => Promise<Readonly<Record<string, string>>>
}

/** One suite for each file of `test/transcripts/FOLDER`, one test for each claim in it. */
export function runTranscripts(folder: string, { prepare }: TranscriptOptions = {}): void {
  const directory = resolve(import.meta.dirname, '../transcripts', folder)
  const files = readdirSync(directory).filter((name) => name.endsWith('.txt'))
  let commands = ''
  beforeAll(async () => {
    const { stdout } = launch({ command: [process.execPath, COMMAND_SERVER] })
    await eventually('the server of the commands listens', () => stdout().endsWith('\n'))
    commands = stdout().trim()
  })
  describe.each(files)('%s', (name) => {
    const file = join(directory, name)
    const claims = readTranscript(readFileSync(file, 'utf8'))
    for (const claim of claims) {
      test(claim.name, async () => {
        const outputs = await perform(claim.steps, { COMMANDS: commands, ...(await prepare?.()) })
        if (IS_RECORDING) return record(file, claim, outputs)
        for (const [at, { command, expected }] of claim.steps.entries()) {
          expect(`$ ${command}\n${outputs[at] ?? '(did not run)'}`).toMatch(patternOf(`$ ${command}\n${expected}`))
        }
      })
    }
  })
}

export function readTranscript(text: string): Claim[] {
  const [, ...parts] = text.split(/^== /m)
  return parts.map((part) => {
    const [name, ...lines] = part.trimEnd().split('\n')
    const [comment, ...steps] = lines.join('\n').split(/^\$ /m)
    return {
      name,
      comment,
      steps: steps.map((step) => {
        // A line that begins with `> ` goes on with the command.
        const [, command, expected] = /^(.*(?:\n> .*)*)\n?([^]*)$/.exec(step) as unknown as [string, string, string]
        return { command, expected: expected.trimEnd() }
      }),
    }
  })
}

/** Types all commands into one bash, in a folder of its own; resolves with what each printed. */
async function perform(steps: readonly Step[], env: Readonly<Record<string, string>>): Promise<string[]> {
  const folder = await makeFolder()
  // A file, since no other program can open what Node makes for a pipe.
  const path = join(await makeFolder(), 'printed')
  const printed = openSync(path, 'a')
  const typed = steps.map(({ command }) => `{ ${command.replaceAll('\n> ', '\n')}\n} 2>&1; printf '${END}%d${END}' $?`)
  const child = spawn('bash', ['--norc', '-c', [`. '${PRELUDE}'`, ...typed, 'exit'].join('\n')], {
    cwd: folder,
    env: {
      ...ENVIRONMENT,
      ...PROGRAMS,
      SLUICE_DATA_DIR: folder,
      ...(DECODER ? { SLUICE_DECODER: DECODER } : {}),
      ...env,
    },
    stdio: ['ignore', printed, 'inherit'],
    // A group of its own, so that whatever it has left running ends with it.
    detached: true,
  })
  const endAll = (): void => {
    try {
      process.kill(-(child.pid ?? 0), 'SIGKILL')
    } catch {
      // All of it has ended.
    }
  }
  const late = setTimeout(endAll, TIMEOUT_MS)
  try {
    await new Promise((done) => child.once('exit', done))
    const parts = readFileSync(path, 'utf8').split(END)
    return steps.slice(0, Math.floor(parts.length / 2)).map((_, at) => {
      const [text, code] = [parts[2 * at].replaceAll(folder, 'FOLDER').trimEnd(), parts[2 * at + 1]]
      return code === '0' ? text : `${text}\nexit ${code}`.trimStart()
    })
  } finally {
    clearTimeout(late)
    closeSync(printed)
    endAll()
  }
}

function patternOf(expected: string): RegExp {
  const escaped = expected.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  return new RegExp(`^${escaped.replace(/\n…(?=\n|$)/g, '(?:\\n[^]*)?').replaceAll('…', '.*')}$`)
}

/** What no two runs print alike. */
const CHANGING =
  /\b[0-9a-f]{8}-[0-9a-f]{4}-[457][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b|\b20\d\d-\d\d-\d\dT[\d:.]+Z|(?<=ak_\w+_)[0-9a-f]{24}|(?<=127\.0\.0\.1:|localhost:)\d+/g

function record(file: string, claim: Claim, outputs: readonly string[]): void {
  const steps = claim.steps.map(({ command }, at) => {
    const printed = outputs[at].replace(CHANGING, '…')
    return `$ ${command}\n${printed === '' ? '' : `${printed}\n`}`
  })
  const parts = readFileSync(file, 'utf8').split(/^== /m)
  const at = parts.findIndex((part) => part.split('\n')[0] === claim.name)
  parts[at] = `${claim.name}\n${claim.comment}${steps.join('')}${at < parts.length - 1 ? '\n' : ''}`
  writeFileSync(file, parts.join('== '))
}
