// @ts-check
// Starts the processes of the benchmark on their cores, and reads what they cost.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { launch } from '../../test/support/processes.js'
import { allowedCores } from '../shared/cores.js'

/** The server's core and the load's: neither may take time from the other. */
const [firstCore, secondCore] = allowedCores()
export const SERVER_CORE = firstCore
export const LOAD_CORE = secondCore ?? firstCore
export const pinned = SERVER_CORE !== LOAD_CORE

/** Ticks a second in /proc/PID/stat: the same on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100

/** What stands before a command: taskset becomes the command itself, so that its id is the one to measure and to stop. @param {number} core */
export function on(core) {
  return pinned ? ['taskset', '-c', String(core)] : []
}

/** @param {number} core @param {readonly string[]} command */
export function start(core, command) {
  return launch({ command: [...on(core), ...command] })
}

/** Runs a command to its end and gives its output. @param {number} core @param {readonly string[]} command */
export async function run(core, command) {
  const { code, output } = await start(core, command).exited
  if (code !== 0) throw new Error(`${command[0]} ended with ${code}:\n${output}`)
  return output
}

/** What a script of Node prints, one line of JSON. @param {number} core @param {URL} script @param {readonly unknown[]} words */
export async function answerOf(core, script, words) {
  return JSON.parse(await run(core, [process.execPath, fileURLToPath(script), ...words.map(String)]))
}

/** CPU seconds of a process and those that it started, all their threads, user and system. @param {number} pid @returns {number} */
export function cpuSeconds(pid) {
  const started = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean)
  return started.reduce((sum, child) => sum + cpuSeconds(Number(child)), readCpuSeconds(`/proc/${pid}/stat`))
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
