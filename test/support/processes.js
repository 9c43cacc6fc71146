// @ts-check
// The processes that tests and load start: each on a port of its own, killed, frozen and started again by its pid.

import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readMetrics } from './metrics.js'

export const MAIN = resolve(import.meta.dirname, '../../dist/main.js')
/** From Node 22.8 on, a program is compiled once for all processes. */
const COMPILED = { NODE_COMPILE_CACHE: join(tmpdir(), 'sluice-test-compiled') }
/** The same tests hold for both HTTP engines: `SLUICE_HTTP_ENGINE=node npx vitest run --project contract`. */
const { SLUICE_HTTP_ENGINE } = process.env
/** What every program has, beside what its test gives it: no other setting of the machine's own reaches it. */
export const ENVIRONMENT = {
  PATH: process.env['PATH'] ?? '',
  HOME: process.env['HOME'] ?? '/',
  ...(SLUICE_HTTP_ENGINE === undefined ? {} : { SLUICE_HTTP_ENGINE }),
}
/** Long, since a shared machine may be slow. */
const START_TIMEOUT_MS = 45_000
const STOP_TIMEOUT_MS = 40_000
const POLL_MS = 20
/** Below the ports that the system gives to clients: one that is free while its process is down must stay free. */
const FIRST_PORT = 20_000
const PORTS = 12_000
const PORT_TRIES = 200

/** `output`: what it printed. @typedef {{ code: number | null, signal: NodeJS.Signals | null, output: string }} Exit */
/**
 * @typedef {object} Running
 * @property {number} pid
 * @property {() => string} output stdout and stderr together
 * @property {() => string} stdout
 * @property {Promise<Exit>} exited
 * @property {() => Exit | null} exit null: it runs
 * @property {(signal: NodeJS.Signals) => void} signal
 */
/**
 * @typedef {object} LaunchOptions
 * @property {readonly string[]} command
 * @property {string} [cwd]
 * @property {Readonly<Record<string, string>>} [env] beside PATH and HOME: no setting of the machine's own reaches it but the HTTP engine
 * @property {number} [openFiles] most open files that it may have; by default what this process may
 * @property {(text: string) => void} [onOutput] gets what is printed, of which then nothing is kept
 */

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set()
/** @type {(() => unknown)[]} */
const cleanUps = []
let isEnding = false

/** @param {LaunchOptions} options @returns {Running} */
export function launch({ command, cwd = tmpdir(), env = {}, openFiles, onOutput }) {
  if (isEnding) throw new Error('the run is ending')
  const [file, ...args] =
    openFiles === undefined ? command : ['bash', '-c', `ulimit -n ${openFiles} && exec "$0" "$@"`, ...command]
  const child = spawn(file, args, {
    cwd,
    env: { ...COMPILED, ...ENVIRONMENT, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.add(child)
  let stdout = ''
  let output = ''
  const keep = onOutput ?? ((/** @type {string} */ text) => void (output += text))
  child.once('error', (error) => keep(`${error.message}\n`))
  child.stdout.setEncoding('utf8').on('data', (text) => {
    if (onOutput === undefined) stdout += text
    keep(text)
  })
  child.stderr.setEncoding('utf8').on('data', keep)
  /** @type {Exit | null} */
  let exit = null
  const exited = new Promise((/** @type {(exit: Exit) => void} */ done) => {
    child.once('close', (code, signal) => {
      running.delete(child)
      exit = { code, signal, output }
      done(exit)
    })
  })
  const pid = child.pid ?? 0
  const signal = (/** @type {NodeJS.Signals} */ name) => void child.kill(name)
  return { pid, output: () => output, stdout: () => stdout, exited, exit: () => exit, signal }
}

/** For `endAll`: removes a folder, say, or ends what is no process. The last one is called first. @param {() => unknown} cleanUp */
export function atEnd(cleanUp) {
  cleanUps.push(cleanUp)
}

/** Nothing that was started here stays, and nothing starts meanwhile. Each run of a load tool ends so, for good, and each test file. @param {{ goesOn?: boolean }} [options] */
export async function endAll({ goesOn = false } = {}) {
  isEnding = true
  const left = [...running]
  const gone = left.map((child) => new Promise((done) => child.once('close', done)))
  for (const child of left) child.kill('SIGKILL')
  await Promise.all(gone)
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp()
  isEnding = !goesOn
}

/** kill -9; a frozen process takes it too. @param {Pick<Running, 'signal' | 'exited'>} process */
export async function kill(process) {
  process.signal('SIGKILL')
  await process.exited
}

/** SIGTERM, and SIGKILL where it is still there in the end; null then. @param {Pick<Running, 'signal' | 'exited'>} process @param {number} [timeoutMs] */
export async function terminate(process, timeoutMs = STOP_TIMEOUT_MS) {
  process.signal('SIGTERM')
  const exit = await Promise.race([process.exited, sleep(timeoutMs, null, { ref: false })])
  if (exit === null) await kill(process)
  return exit
}

/** A command to its end. @param {LaunchOptions} options @param {number} [timeoutMs] @returns {Promise<Exit & { stdout: string }>} */
export async function runToEnd(options, timeoutMs = START_TIMEOUT_MS) {
  const started = launch(options)
  const exit = await Promise.race([started.exited, sleep(timeoutMs, null, { ref: false })])
  if (exit !== null) return { ...exit, stdout: started.stdout() }
  await kill(started)
  throw new Error(`${options.command.join(' ')} did not end in time:\n${started.output()}`)
}

/** Asks until the answer is not null, as long as the process runs. @template T @param {string} name @param {Running} process @param {() => T | null | Promise<T | null>} ask @returns {Promise<T>} */
async function untilUp(name, process, ask) {
  for (const deadlineMs = performance.now() + START_TIMEOUT_MS; ; await sleep(POLL_MS)) {
    const answer = await ask()
    if (answer !== null) return answer
    if (process.exit() === null && performance.now() < deadlineMs) continue
    const how = process.exit() === null ? 'did not start in time' : `ended at its start with ${process.exit()?.code}`
    await kill(process)
    throw new Error(`${name} ${how}:\n${process.output()}`)
  }
}

/** @returns {Promise<number>} */
export async function freePort() {
  for (let attempt = 0; attempt < PORT_TRIES; attempt++) {
    const port = FIRST_PORT + Math.floor(Math.random() * PORTS)
    if (await isFree(port)) return port
  }
  throw new Error(`none of ${PORT_TRIES} ports was free`)
}

/** @param {number} port @returns {Promise<boolean>} */
function isFree(port) {
  return new Promise((done) => {
    const server = createServer()
    server.once('error', () => done(false))
    server.listen(port, '127.0.0.1', () => server.close(() => done(true)))
  })
}

/** @param {number} port @returns {Promise<true | null>} */
function accepts(port) {
  return new Promise((done) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('error', () => done(null))
    socket.once('connect', () => {
      socket.destroy()
      done(true)
    })
  })
}

/**
 * A server that others talk to. It keeps its port and its folder when it is killed and started again.
 * @typedef {object} Program
 * @property {string} name
 * @property {number} port
 * @property {number} pid
 * @property {string} folder
 * @property {() => string} output over all its starts
 * @property {() => void} freeze SIGSTOP: connections stay open and nobody answers on them
 * @property {() => void} resume SIGCONT
 * @property {() => Promise<void>} kill kill -9
 * @property {() => Promise<void>} terminate SIGTERM, and waits for its end
 * @property {(options?: { empty?: boolean }) => Promise<void>} restart after `kill`; `empty`: with nothing of what it had stored in `data`
 * @property {() => Promise<void>} stop ends it and removes its folder
 */

/** On a busy machine a thread of it may go on for a moment after the signal, and answer. Linux alone shows that. @param {number} pid */
function waitUntilStopped(pid) {
  const tasks = `/proc/${pid}/task`
  const isStopped = (/** @type {string} */ task) => {
    try {
      return /\) [TtZX] /.test(readFileSync(`${tasks}/${task}/stat`, 'utf8'))
    } catch {
      // It has ended since its name was read.
      return true
    }
  }
  const untilMs = performance.now() + 1000
  while (existsSync(tasks) && performance.now() < untilMs && !readdirSync(tasks).every(isStopped));
}

/** @param {{ name: string, folder?: string, command: (place: { port: number, folder: string }) => readonly string[] }} options @returns {Promise<Program>} */
export async function startProgram({ name, folder: given, command }) {
  const port = await freePort()
  const folder = given ?? mkdtempSync(join(tmpdir(), `sluice-${name}-`))
  const removeFolder = () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  if (given === undefined) atEnd(removeFolder)
  let output = ''
  /** @type {Running} */
  let process
  const start = async () => {
    mkdirSync(folder, { recursive: true })
    process = launch({ command: command({ port, folder }), cwd: folder, onOutput: (text) => (output += text) })
    await untilUp(name, { ...process, output: () => output }, () => accepts(port))
  }
  const end = () => kill(process)
  await start()
  return {
    name,
    port,
    folder,
    output: () => output,
    get pid() {
      return process.pid
    },
    freeze: () => {
      process.signal('SIGSTOP')
      waitUntilStopped(process.pid)
    },
    resume: () => process.signal('SIGCONT'),
    kill: end,
    terminate: async () => void (await terminate(process)),
    restart: async ({ empty = false } = {}) => {
      await end()
      if (empty) rmSync(join(folder, 'data'), { recursive: true, force: true })
      await start()
    },
    stop: async () => {
      await end()
      removeFolder()
    },
  }
}

/**
 * The built service, started once.
 * @typedef {Omit<Running, 'stdout'> & { port: number, adminPort: number, portalPort: number, stop: () => Promise<Exit>, kill: () => Promise<void> }} Node
 */

/**
 * Starts `sluice serve` and waits until it says that it listens, or until `isReady` (by default at once).
 * @param {Omit<LaunchOptions, 'command'> & { program?: readonly string[], isReady?: (adminPort: number) => Promise<boolean> }} options `program`: what stands before `serve`; `env`: free ports unless it says others
 * @returns {Promise<Node>}
 */
export async function startNode({ program = [process.execPath, MAIN], env = {}, isReady, onOutput, ...options }) {
  if (!existsSync(program.at(-1) ?? '')) throw new Error('the service is not built: run `npm run build` first')
  let head = ''
  /** @type {{ port: number, adminPort: number, portalPort: number } | null} */
  let ports = null
  const started = launch({
    ...options,
    command: [...program, 'serve'],
    env: { PORT: '0', HOST: '127.0.0.1', SLUICE_ADMIN_PORT: '0', ...env },
    ...(onOutput && {
      onOutput: (text) => {
        if (ports === null) head += text
        onOutput(text)
      },
    }),
  })
  ports = await untilUp('the service', { ...started, output: () => head + started.output() }, () =>
    portsIn(onOutput === undefined ? started.stdout() : head),
  )
  const { adminPort } = ports
  if (isReady !== undefined) await untilUp('the service', started, async () => (await isReady(adminPort)) || null)
  const stop = async () => {
    const exit = await terminate(started)
    if (exit === null) throw new Error(`the service did not end in time:\n${started.output()}`)
    return exit
  }
  return { ...started, ...ports, stop, kill: () => kill(started) }
}

/** What the service logged once it listened. @param {string} text */
function portsIn(text) {
  const line = text.split('\n').find((one) => one.includes('"msg":"listening"') && one.endsWith('}'))
  if (line === undefined) return null
  const { port, admin_port: adminPort, portal_port: portalPort = 0 } = JSON.parse(line)
  return { port, adminPort, portalPort }
}

/** The metrics of a node. @param {{ adminPort: number }} node */
export async function metricsOf({ adminPort }) {
  const answer = await fetch(`http://127.0.0.1:${adminPort}/metrics`, { signal: AbortSignal.timeout(10_000) })
  return readMetrics(await answer.text())
}
