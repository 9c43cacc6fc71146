// @ts-check
// Starts the processes of the benchmark on their cores, reads what they cost, and ends every one of them by its id.

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { allowedCores } from '../shared/cores.js'

/** The server's core and the load's: neither may take time from the other. */
const [firstCore, secondCore] = allowedCores()
export const SERVER_CORE = firstCore
export const LOAD_CORE = secondCore ?? firstCore
export const pinned = SERVER_CORE !== LOAD_CORE

const START_TIMEOUT_MS = 20_000
const STOP_TIMEOUT_MS = 30_000
/** Ticks a second in /proc/PID/stat: the same on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100

/** @typedef {import('node:child_process').ChildProcess} ChildProcess */
/** @typedef {{ child: ChildProcess, pid: number, output: () => string }} Started */

/** @type {Set<ChildProcess>} */
const running = new Set()
let stopping = false

/** @param {number} core @param {string[]} command @param {Record<string, string>} [env] @returns {Started} */
export function start(core, command, env = {}) {
  if (stopping) throw new Error('the benchmark was ended')
  // taskset becomes the command itself, so that its id is the one to measure and to stop.
  const [program, ...args] = pinned ? ['taskset', '-c', String(core), ...command] : command
  const child = spawn(program, args, {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.add(child)
  let output = ''
  const keep = (/** @type {Buffer} */ chunk) => {
    output = (output + chunk.toString()).slice(-1_000_000)
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  child.once('error', (error) => keep(Buffer.from(`${error.message}\n`)))
  child.once('close', () => running.delete(child))
  return { child, pid: child.pid ?? 0, output: () => output }
}

/** Runs a command to its end and gives its output. @param {number} core @param {string[]} command */
export async function run(core, command) {
  const started = start(core, command)
  const code = await ended(started.child)
  if (code !== 0) throw new Error(`${command[0]} ended with ${code}:\n${started.output()}`)
  return started.output()
}

/** @param {Started} started */
export async function stop({ child }) {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGTERM')
  const late = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
  await ended(child)
  clearTimeout(late)
}

/** For the end, by a signal too: nothing that was started here stays, and nothing starts any more. */
export async function stopAll() {
  stopping = true
  const left = [...running]
  for (const child of left) child.kill('SIGKILL')
  await Promise.all(left.map(ended))
}

/** @param {ChildProcess} child @returns {Promise<number | null>} */
function ended(child) {
  if (!running.has(child)) return Promise.resolve(child.exitCode)
  return new Promise((resolve) => child.once('close', (code) => resolve(code)))
}

/** Waits until a GET of the address succeeds. @param {Started} started @param {string} url @param {(status: number) => boolean} isUp */
export async function waitUntilUp(started, url, isUp) {
  const deadlineMs = Date.now() + START_TIMEOUT_MS
  while (Date.now() < deadlineMs) {
    if (!running.has(started.child)) throw new Error(`ended while it started:\n${started.output()}`)
    const status = await fetch(url).then(
      (answer) => answer.status,
      () => 0,
    )
    if (isUp(status)) return
    await sleep(50)
  }
  throw new Error(`not up after ${START_TIMEOUT_MS / 1000} s:\n${started.output()}`)
}

/** CPU seconds of a process, all its threads, user and system. @param {number} pid */
export function cpuSeconds(pid) {
  return readCpuSeconds(`/proc/${pid}/stat`)
}

/** The same of its first thread alone, which is the front end's. @param {number} pid */
export function mainThreadCpuSeconds(pid) {
  return readCpuSeconds(`/proc/${pid}/task/${pid}/stat`)
}

/** @param {string} path */
function readCpuSeconds(path) {
  const stat = readFileSync(path, 'utf8')
  // The second field is the name, in brackets, and may hold spaces.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

/** @param {number} pid */
export function memoryMb(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const read = (/** @type {string} */ name) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024
  return { resident: read('VmRSS'), peak: read('VmHWM') }
}

/** @returns {Promise<number>} */
export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() =>
        address && typeof address === 'object' ? resolve(address.port) : reject(new Error('no port')),
      )
    })
  })
}
