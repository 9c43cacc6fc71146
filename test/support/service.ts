// Runs the built service as a process of its own, with its own folder and app file, the way an operator would.
// Nothing of its inside is imported: what a test knows of it comes over a port, a file or its output.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { atEnd, ENVIRONMENT, type Exit, launch, MAIN, type Running, runToEnd, startNode } from './processes.js'

export type { Exit }

const LOOK_EVERY_MS = 50
/** `SLUICE_TEST_DECODER=simdjson` holds the other decoder to the same tests. */
const DECODER = process.env['SLUICE_TEST_DECODER']

export interface AppRecord {
  readonly app_key: string
  readonly app_id: string
  readonly plan: string
  readonly subscription: string
  readonly name?: string
  readonly trial_ends_at?: string
  readonly billing_cycle_anchor?: string
  readonly events_per_minute?: number
  readonly events_per_day?: number
  readonly events_per_month?: number
  readonly bytes_per_minute?: number
  readonly alerts?: readonly number[]
  readonly origins?: readonly string[]
}

export interface Service {
  readonly port: number
  readonly adminPort: number
  /** 0: there is no portal. */
  readonly portalPort: number
  readonly pid: number
  readonly dataDir: string
  readonly appsFile: string
  /** Everything it has printed so far, stdout and stderr together. */
  output(): string
  readonly exited: Promise<Exit>
  signal(name: NodeJS.Signals): void
  /** SIGTERM, and what came of it. */
  stop(): Promise<Exit>
  /** kill -9, and wait until the process is gone. */
  kill(): Promise<void>
}

export interface ServiceOptions {
  /** By default one of its own, which is removed at the end of the file's tests. */
  readonly dataDir?: string
  readonly apps?: readonly AppRecord[]
  readonly env?: Readonly<Record<string, string>>
  /** Most open files that the process may have; by default what this one may. */
  readonly openFiles?: number
}

/** An app that may send 5M's figures, with what a test wants changed; the key is `ak_` and the id. */
export function appRecord(id: string, changes: Partial<AppRecord> = {}): AppRecord {
  return { app_key: `ak_${id}`, app_id: id, plan: '5m', subscription: 'active', ...changes }
}

/** Like each program that was started, it is gone with the last test of the file, and needs no hook of its own. */
export async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-test-'))
  atEnd(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  return folder
}

export function writeApps(file: string, apps: readonly AppRecord[]): Promise<void> {
  return writeFile(file, JSON.stringify({ apps }, null, 2))
}

/** Everything that this file's tests have started, in order. */
export const launched: { readonly title: string; readonly output: () => string }[] = []

function note<T extends Pick<Running, 'pid' | 'output'>>(title: string, started: T): T {
  launched.push({ title: `sluice ${title} (pid ${started.pid})`, output: started.output })
  return started
}

/** Starts `sluice serve` on free ports and waits until it says that it listens. */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { dataDir = await makeFolder(), apps, env = {}, openFiles } = options
  const appsFile = env['SLUICE_APPS_FILE'] ?? join(dataDir, 'apps.json')
  if (apps) await writeApps(appsFile, apps)
  const node = await startNode({
    cwd: dataDir,
    env: { SLUICE_DATA_DIR: dataDir, ...(DECODER ? { SLUICE_DECODER: DECODER } : {}), ...env },
    ...(openFiles !== undefined && { openFiles }),
  })
  return { ...note('serve', node), dataDir, appsFile }
}

export type CommandResult = Pick<Awaited<ReturnType<typeof runToEnd>>, 'code' | 'stdout' | 'output'>

/** Runs a command of the built program to its end: here, since a process each costs a fifth of a second of CPU. The service has one. */
export async function runCommand(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  folder: string = tmpdir(),
): Promise<CommandResult> {
  const { code, stdout, output } = await (args.join() === 'serve'
    ? runToEnd({ command: [process.execPath, MAIN, ...args], env, cwd: folder })
    : runHere(args, env, folder))
  launched.push({ title: `sluice ${args.join(' ')}`, output: () => output })
  return { code, stdout, output }
}

/** Where this process was before the first of the commands that run here now, all in one folder. */
const here = { commands: 0, folder: '' }

async function runHere(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  folder: string,
): Promise<CommandResult> {
  const { program } = await import('../../dist/program.js')
  if (here.commands === 0) here.folder = process.cwd()
  else if (process.cwd() !== folder) throw new Error('two commands at a time, in two folders')
  process.chdir(folder)
  here.commands += 1
  const pieces: { readonly bytes: Buffer; readonly isStdout: boolean }[] = []
  const stream = (isStdout: boolean): Writable =>
    new Writable({ write: (bytes: Buffer, _encoding, done) => done(void pieces.push({ bytes, isStdout })) })
  const text = (of: typeof pieces): string => Buffer.concat(of.map(({ bytes }) => bytes)).toString()
  try {
    const streams = { stdin: Readable.from([]), stdout: stream(true), stderr: stream(false) }
    const terminal = { terminal: false, interactive: false, colour: false }
    const code = await program(args, {
      env: { ...ENVIRONMENT, ...env },
      ...streams,
      ...terminal,
      clock: () => Date.now(),
    })
    return { code, stdout: text(pieces.filter(({ isStdout }) => isStdout)), output: text(pieces) }
  } finally {
    here.commands -= 1
    if (here.commands === 0) process.chdir(here.folder)
  }
}

export interface Started extends Running {
  kill(): void
}

/** Starts a command that goes on until it is stopped, such as `tail`. */
export function startCommand(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  folder: string = tmpdir(),
): Started {
  const started = note(args.join(' '), launch({ command: [process.execPath, MAIN, ...args], env, cwd: folder }))
  return { ...started, kill: () => started.signal('SIGKILL') }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((done) => {
    setTimeout(done, ms)
  })
}

/** Asks again and again until the answer is yes; says what was awaited when it never comes. */
export async function eventually(
  what: string,
  ask: () => Promise<boolean> | boolean,
  timeoutMs = 90_000,
): Promise<void> {
  const deadlineMs = Date.now() + timeoutMs
  while (!(await ask())) {
    if (Date.now() > deadlineMs) throw new Error(`in ${timeoutMs} ms it never came true that ${what}`)
    await sleep(LOOK_EVERY_MS)
  }
}

/** Waits for the next UTC minute where this one has fewer than `seconds` left, so that a count is not cut in two. */
export async function roomInMinute(seconds: number): Promise<void> {
  const leftMs = 60_000 - (Date.now() % 60_000)
  if (leftMs < seconds * 1000) await sleep(leftMs + 50)
}
