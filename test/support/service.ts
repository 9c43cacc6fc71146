// Runs the built service as a process of its own, with its own folder and app file, the way an operator would.
// Nothing of its inside is imported: what a test knows of it comes over a port, a file or its output.

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const MAIN = resolve(import.meta.dirname, '../../dist/main.js')
/** Long, since a shared machine may be slow. */
const START_TIMEOUT_MS = 45_000
const EXIT_TIMEOUT_MS = 40_000
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
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly output: string
}

export interface Service {
  readonly port: number
  readonly adminPort: number
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
  readonly dataDir: string
  readonly apps?: readonly AppRecord[]
  readonly env?: Readonly<Record<string, string>>
  /** Most open files that the process may have; by default what this one may. */
  readonly openFiles?: number
}

/** An app that may send 5M's figures, with what a test wants changed; the key is `ak_` and the id. */
export function appRecord(id: string, changes: Partial<AppRecord> = {}): AppRecord {
  return { app_key: `ak_${id}`, app_id: id, plan: '5m', subscription: 'active', ...changes }
}

export function makeFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'sluice-test-'))
}

export function removeFolder(path: string): Promise<void> {
  return rm(path, { recursive: true, force: true, maxRetries: 5 })
}

export function writeApps(file: string, apps: readonly AppRecord[]): Promise<void> {
  return writeFile(file, JSON.stringify({ apps }, null, 2))
}

/** Only what a process needs to run: no setting of the machine's own reaches the service under test. */
function cleanEnvironment(env: Readonly<Record<string, string>>): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '/', ...env }
}

interface Running {
  readonly child: ChildProcess
  readonly exited: Promise<Exit>
  output(): string
  stdout(): string
}

interface Launched {
  readonly title: string
  readonly output: () => string
}

/** Everything that this file's tests have started, in order. */
export const launched: Launched[] = []

function launch(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  folder: string,
  openFiles?: number,
): Running {
  if (!existsSync(MAIN)) throw new Error('dist/main.js is missing: run `npm run build` first')
  const command = [process.execPath, MAIN, ...args]
  const [file, ...rest] =
    openFiles === undefined ? command : ['bash', '-c', `ulimit -n ${openFiles} && exec "$0" "$@"`, ...command]
  const child = spawn(file, rest, {
    cwd: folder,
    env: cleanEnvironment(env),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let both = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
    both += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    both += text
  })
  launched.push({ title: `sluice ${args.join(' ')} (pid ${child.pid})`, output: () => both })
  const exited = new Promise<Exit>((done, fail) => {
    child.once('error', fail)
    child.once('close', (code, signal) => done({ code, signal, output: both }))
  })
  return { child, exited, output: () => both, stdout: () => stdout }
}

interface Listening {
  readonly port: number
  readonly admin_port: number
}

function findListening(stdout: string): Listening | null {
  for (const line of stdout.split('\n')) {
    if (!line.includes('"listening"')) continue
    try {
      const entry = JSON.parse(line) as { msg?: string; port?: number; admin_port?: number }
      if (entry.msg === 'listening' && entry.port && entry.admin_port) {
        return { port: entry.port, admin_port: entry.admin_port }
      }
    } catch {
      // Half a line: the rest comes with the next piece of output.
    }
  }
  return null
}

function within<T>(promise: Promise<T>, timeoutMs: number, complaint: () => string): Promise<T> {
  let timer: NodeJS.Timeout
  const late = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(new Error(complaint())), timeoutMs)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

/** Starts `sluice serve` on free ports and waits until it says that it listens. */
export async function startService(options: ServiceOptions): Promise<Service> {
  const appsFile = options.env?.['SLUICE_APPS_FILE'] ?? join(options.dataDir, 'apps.json')
  if (options.apps) await writeApps(appsFile, options.apps)
  const env = {
    PORT: '0',
    HOST: '127.0.0.1',
    SLUICE_ADMIN_PORT: '0',
    SLUICE_DATA_DIR: options.dataDir,
    ...(DECODER ? { SLUICE_DECODER: DECODER } : {}),
    ...options.env,
  }
  const running = launch(['serve'], env, options.dataDir, options.openFiles)
  const { child, exited } = running
  const listening = await within(
    new Promise<Listening>((done, fail) => {
      const look = (): void => {
        const found = findListening(running.stdout())
        if (found) done(found)
      }
      child.stdout?.on('data', look)
      exited.then((exit) => fail(new Error(`the service ended at start (${exit.code}):\n${exit.output}`)), fail)
    }),
    START_TIMEOUT_MS,
    () => {
      child.kill('SIGKILL')
      return `the service did not say "listening" in time:\n${running.output()}`
    },
  )
  const gone = (): Promise<Exit> =>
    within(exited, EXIT_TIMEOUT_MS, () => {
      child.kill('SIGKILL')
      return `the service did not end in time:\n${running.output()}`
    })
  return {
    port: listening.port,
    adminPort: listening.admin_port,
    pid: child.pid ?? 0,
    dataDir: options.dataDir,
    appsFile,
    output: () => running.output(),
    exited,
    signal: (name) => void child.kill(name),
    stop: () => {
      child.kill('SIGTERM')
      return gone()
    },
    kill: async () => {
      child.kill('SIGKILL')
      await gone()
    },
  }
}

export interface CommandResult {
  readonly code: number | null
  readonly stdout: string
  /** stdout and stderr together. */
  readonly output: string
}

/** Runs a command of the built program to its end. */
export async function runCommand(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  folder: string = tmpdir(),
): Promise<CommandResult> {
  const running = launch(args, env, folder)
  const exit = await within(running.exited, START_TIMEOUT_MS, () => {
    running.child.kill('SIGKILL')
    return `sluice ${args.join(' ')} did not end in time:\n${running.output()}`
  })
  return { code: exit.code, stdout: running.stdout(), output: exit.output }
}

export interface Started {
  readonly pid: number
  readonly exited: Promise<Exit>
  output(): string
  stdout(): string
  kill(): void
}

/** Starts a command that goes on until it is stopped, such as `tail`. */
export function startCommand(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  folder: string = tmpdir(),
): Started {
  const running = launch(args, env, folder)
  return {
    pid: running.child.pid ?? 0,
    exited: running.exited,
    output: () => running.output(),
    stdout: () => running.stdout(),
    kill: () => void running.child.kill('SIGKILL'),
  }
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
  timeoutMs = 15_000,
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
