// @ts-check
// The processes of a run of faults or of load: each on a port of its own, killed, frozen and started again by its pid, and
// every one of them ended with the run, however it ends.

import { spawn } from 'node:child_process'
import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const POLL_MS = 20
/** Below the ports that the system gives to clients: one that is free while its process is down must stay free. */
const FIRST_PORT = 20_000
const PORTS = 12_000
const PORT_TRIES = 200

/** @typedef {{ code: number | null, signal: NodeJS.Signals | null }} Exit */
/**
 * @typedef {object} Running
 * @property {number} pid
 * @property {Promise<Exit>} exited
 * @property {() => Exit | null} exit null: it runs
 * @property {(signal: NodeJS.Signals) => void} signal
 */

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set()
let ending = false

/**
 * @param {{ command: string[], cwd: string, env?: Record<string, string>, onOutput: (text: string) => void }} options
 * @returns {Running}
 */
export function launch({ command: [file, ...args], cwd, env = {}, onOutput }) {
  if (ending) throw new Error('the run is ending')
  const environment = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '/', ...env }
  const child = spawn(file, args, { cwd, env: environment, stdio: ['ignore', 'pipe', 'pipe'] })
  running.add(child)
  /** @type {Exit | null} */
  let exit = null
  const exited = new Promise((/** @type {(exit: Exit) => void} */ resolve) => {
    child.once('close', (code, signal) => {
      running.delete(child)
      exit = { code, signal }
      resolve(exit)
    })
  })
  child.once('error', (error) => onOutput(`${error.message}\n`))
  child.stdout.setEncoding('utf8').on('data', onOutput)
  child.stderr.setEncoding('utf8').on('data', onOutput)
  return { pid: child.pid ?? 0, exited, exit: () => exit, signal: (signal) => void child.kill(signal) }
}

/** Runs a command to its end and gives what it printed. @param {Omit<Parameters<typeof launch>[0], 'onOutput'>} options */
export async function runToEnd(options) {
  let output = ''
  const { exited } = launch({ ...options, onOutput: (text) => (output += text) })
  return { ...(await exited), output }
}

/** kill -9; a frozen process takes it too. @param {Running} process */
export async function kill(process) {
  process.signal('SIGKILL')
  await process.exited
}

/** Nothing that was started here stays, and nothing starts any more. */
export async function endAll() {
  ending = true
  const left = [...running]
  const gone = left.map((child) => new Promise((resolve) => child.once('close', resolve)))
  for (const child of left) child.kill('SIGKILL')
  await Promise.all(gone)
}

/** @param {(max: number) => number} pick a number below `max` */
export async function freePort(pick) {
  for (let attempt = 0; attempt < PORT_TRIES; attempt++) {
    const port = FIRST_PORT + pick(PORTS)
    if (await isFree(port)) return port
  }
  throw new Error(`none of ${PORT_TRIES} ports was free`)
}

/** @param {number} port @returns {Promise<boolean>} */
function isFree(port) {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

/** Waits until a process listens. @param {Running} process @param {number} port @param {number} timeoutMs */
export async function untilListening(process, port, timeoutMs) {
  const deadlineMs = performance.now() + timeoutMs
  while (!(await accepts(port))) {
    if (process.exit() !== null) return false
    if (performance.now() > deadlineMs) return false
    await sleep(POLL_MS)
  }
  return true
}

/** @param {number} port @returns {Promise<boolean>} */
function accepts(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
