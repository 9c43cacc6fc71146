// The relay of proxy.ts, on a thread of its own: what passes must not wait for a test that is busy. It takes one
// command at a time, and says when it is done.

import { connect, createServer } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'

/** @type {{ targetPort: number, done: Int32Array }} */
const { targetPort: firstPort, done } = workerData
let targetPort = firstPort

/** @type {Set<import('node:net').Socket>} */
const sockets = new Set()
/** One for each direction of each connection: passes on what is due. @type {Set<() => void>} */
const flushes = new Set()
/** Passes at most so many bytes in each direction of each connection every `TICK_MS`. */
let bytesPerTick = Number.POSITIVE_INFINITY
const TICK_MS = 10
let delayMs = 0
let holding = false
let refusing = false

/** @param {import('node:net').Socket} from @param {import('node:net').Socket} to */
function relay(from, to) {
  // In the order in which they came, whatever the delay was then and is now.
  /** @type {{ piece: Buffer, dueMs: number }[]} */
  const waiting = []
  let room = bytesPerTick
  const flush = () => {
    if (holding) return
    const untilMs = delayMs === 0 ? Number.POSITIVE_INFINITY : performance.now()
    while (waiting.length > 0 && waiting[0].dueMs <= untilMs && room > 0) {
      const [next] = waiting
      const passes = next.piece.subarray(0, room)
      room -= passes.length
      if (passes.length < next.piece.length) next.piece = next.piece.subarray(passes.length)
      else waiting.shift()
      if (!to.destroyed) to.write(passes)
    }
  }
  const tick = setInterval(() => {
    room = bytesPerTick
    if (waiting.length > 0) flush()
  }, TICK_MS)
  flushes.add(flush)
  from.on('data', (piece) => {
    waiting.push({ piece, dueMs: performance.now() + delayMs })
    // A timer may fire a little early.
    if (delayMs > 0) setTimeout(flush, delayMs + 1)
    else flush()
  })
  from.on('close', () => {
    flushes.delete(flush)
    clearInterval(tick)
    to.destroy()
  })
  from.on('error', () => to.destroy())
}

const server = createServer((client) => {
  if (refusing) {
    client.destroy()
    return
  }
  const upstream = connect(targetPort, '127.0.0.1')
  for (const socket of [client, upstream]) {
    socket.setNoDelay(true)
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  }
  relay(client, upstream)
  relay(upstream, client)
})

const commands = {
  /** @param {number} ms */
  delay(ms) {
    delayMs = ms
  },
  /** @param {number} bytes */
  pace(bytes) {
    bytesPerTick = bytes
  },
  cut() {
    refusing = true
    for (const socket of sockets) socket.destroy()
  },
  hold() {
    holding = true
  },
  /** @param {number} port */
  lead(port) {
    targetPort = port
    for (const socket of sockets) socket.destroy()
  },
  heal() {
    refusing = false
    holding = false
    delayMs = 0
    bytesPerTick = Number.POSITIVE_INFINITY
    for (const flush of flushes) flush()
  },
}

parentPort?.on('message', ({ name, value }) => {
  commands[/** @type {keyof typeof commands} */ (name)](value)
  Atomics.add(done, 0, 1)
  Atomics.notify(done, 0)
})
server.listen(0, '127.0.0.1', () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is for windows
  parentPort?.postMessage(port)
})
