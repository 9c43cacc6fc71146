// @ts-check
// Runs the commands of transcripts in one process, since a process each costs a tenth of a second of CPU, 700 times. A
// shell sends `PID FOLDER ARGUMENTS` and its environment over TCP; the command reads and writes the shell's own files, by
// /proc/PID/fd, and the answer is its exit code. `json` instead of `sluice` evaluates an expression over standard input.

import { closeSync, constants, createReadStream, fstatSync, openSync, writeSync } from 'node:fs'
import { createServer, Socket } from 'node:net'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { runInNewContext } from 'node:vm'
import { systemClock } from '../../dist/lib/clock.js'
import { program } from '../../dist/program.js'

const END = '\0\u0004'
const CLOSED = new Set(['EPIPE', 'ENXIO'])

/** @typedef {{ pid: string, folder: string, name: string, args: string[], env: Record<string, string> }} Call */

/** @param {string} request words that end in NUL, the environment last @returns {Call} */
function readCall(request) {
  const [pid = '', folder = '', count = '', ...words] = request.split('\0')
  const [name = '', ...args] = words.slice(0, Number(count))
  const env = words.slice(Number(count)).filter((word) => word.includes('='))
  return { pid, folder, name, args, env: Object.fromEntries(env.map((word) => split(word))) }
}

/** @param {string} word @returns {[string, string]} */
function split(word) {
  const at = word.indexOf('=')
  return [word.slice(0, at), word.slice(at + 1)]
}

/** A pipe is opened without waiting for its other end. @param {string} path @param {number} mode @returns {[number, boolean]} */
function open(path, mode) {
  const fd = openSync(path, mode | constants.O_NONBLOCK)
  return [fd, fstatSync(fd).isFIFO()]
}

/** @param {Call} call @param {number} number @param {(code: number) => void} leave */
function output({ pid, name, args }, number, leave) {
  const onError = (/** @type {NodeJS.ErrnoException} */ error) => {
    if (!CLOSED.has(error.code ?? '')) throw error
    // As src/main.ts, where the reader has gone.
    if (name === 'json' || (number === 1 && args[0] === 'tail')) leave(0)
  }
  try {
    const [fd, isPipe] = open(`/proc/${pid}/fd/${number}`, constants.O_WRONLY | constants.O_APPEND)
    const stream = isPipe
      ? new Socket({ fd, readable: false, writable: true })
      : new Writable({
          write: (chunk, _encoding, done) => done(void writeSync(fd, chunk)),
          destroy: (error, done) => done((closeSync(fd), error)),
        })
    return stream.on('error', onError)
  } catch (error) {
    onError(/** @type {NodeJS.ErrnoException} */ (error))
    return new Writable({ write: (_chunk, _encoding, done) => done() })
  }
}

/** @param {Call} call */
function input({ pid }) {
  const [fd, isPipe] = open(`/proc/${pid}/fd/0`, constants.O_RDONLY)
  return isPipe ? new Socket({ fd, readable: true, writable: false }) : createReadStream('', { fd })
}

/** @param {Call} call @param {(code: number) => void} leave @returns {Promise<void>} */
async function perform(call, leave) {
  process.chdir(call.folder)
  const [stdin, stdout, stderr] = [input(call), output(call, 1, leave), output(call, 2, leave)]
  try {
    let code = 0
    if (call.name === 'json') {
      const shown = evaluate(call.args[0] ?? '', JSON.parse(await text(stdin)))
      stdout.write(`${typeof shown === 'string' ? shown : JSON.stringify(shown)}\n`)
    } else {
      const terminal = { terminal: false, interactive: false, colour: false }
      code = await program(call.args, { env: call.env, stdin, stdout, stderr, ...terminal, clock: systemClock })
    }
    await Promise.all([stdout, stderr].map((stream) => new Promise((done) => stream.end(() => done(null)))))
    leave(code)
  } finally {
    // Whoever reads in a pipe waits for its end.
    for (const stream of [stdin, stdout, stderr]) stream.destroy()
  }
}

/** @param {string} expression over `o` @param {any} o @returns {unknown} */
function evaluate(expression, o) {
  return runInNewContext(`(${expression})`, { o })
}

const server = createServer((socket) => {
  let request = ''
  socket.on('error', () => {})
  socket.setEncoding('utf8').on('data', (part) => {
    request += part
    if (!request.endsWith(END)) return
    const leave = (/** @type {number} */ code) => void (socket.writable && socket.end(`${code}\n`))
    perform(readCall(request), leave).catch((error) => {
      console.error(error)
      leave(70)
    })
  })
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  console.log(typeof address === 'object' && address?.port)
})
