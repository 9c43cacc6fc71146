// Programs that tests run beside the service: started on a free port with a folder of their own, stopped by their pid.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const START_TIMEOUT_MS = 30_000
const POLL_MS = 20

export interface Program {
  readonly port: number
  readonly pid: number
  readonly folder: string
  /** What it has printed so far, over all its starts. */
  output(): string
  /** SIGSTOP: connections stay open and nobody answers on them. */
  freeze(): void
  /** SIGCONT. */
  resume(): void
  /** kill -9; the folder and the port stay its own. */
  kill(): Promise<void>
  /** Starts it again after `kill`, on the same port; `empty`: with nothing of what it had stored. */
  restart(options?: { empty?: boolean }): Promise<void>
  /** Ends it and removes its folder. */
  stop(): Promise<void>
}

export interface ProgramOptions {
  readonly name: string
  readonly command: (place: { port: number; folder: string }) => readonly string[]
}

export async function startProgram({ name, command }: ProgramOptions): Promise<Program> {
  const folder = await mkdtemp(join(tmpdir(), `sluice-${name}-`))
  const port = await freePort()
  let output = ''
  let child = await launch()

  async function launch(): Promise<ChildProcess> {
    const [file, ...args] = command({ port, folder })
    const started = spawn(file, args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
    started.stdout?.on('data', (text: Buffer) => (output += text.toString()))
    started.stderr?.on('data', (text: Buffer) => (output += text.toString()))
    started.once('error', (error) => (output += error.message))
    const deadlineMs = Date.now() + START_TIMEOUT_MS
    while (!(await accepts(port))) {
      if (started.exitCode !== null || Date.now() > deadlineMs) {
        started.kill('SIGKILL')
        throw new Error(`${name} did not start:\n${output}`)
      }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
    return started
  }

  async function end(): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return
    const gone = new Promise((resolve) => child.once('exit', resolve))
    // A frozen process takes SIGKILL too.
    child.kill('SIGKILL')
    await gone
  }

  return {
    port,
    folder,
    output: () => output,
    get pid() {
      return child.pid as number
    },
    freeze: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    kill: end,
    restart: async ({ empty = false } = {}) => {
      await end()
      if (empty) await rm(join(folder, 'data'), { recursive: true, force: true })
      child = await launch()
    },
    stop: async () => {
      await end()
      await rm(folder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true))
    socket.once('error', () => resolve(false))
    socket.once('close', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}
