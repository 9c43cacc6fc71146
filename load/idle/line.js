// @ts-check
// A line of some length between a client and the service: everything takes its time, the end of a connection too. It
// can leave out the header that tells how long a connection stays open.

import { once } from 'node:events'
import { connect, createServer } from 'node:net'

/** One line of an answer's head; a head comes in one piece. */
const KEEP_ALIVE = /\r\nKeep-Alive: [^\r]*/i

/** @param {{ port: number, delayMs: number, tellsIdleTime: boolean }} options `port`: of the service */
export async function startLine({ port, delayMs, tellsIdleTime }) {
  /** @type {Set<import('node:net').Socket>} */
  const sockets = new Set()
  /** @param {import('node:net').Socket} from @param {import('node:net').Socket} to @param {(piece: Buffer) => Buffer} change */
  const carry = (from, to, change) => {
    from.on('data', (piece) => setTimeout(() => to.destroyed || to.write(change(piece)), delayMs))
    from.on('end', () => setTimeout(() => to.end(), delayMs))
    from.on('error', () => setTimeout(() => to.resetAndDestroy(), delayMs))
    from.on('close', () => sockets.delete(from))
  }
  const asItIs = (/** @type {Buffer} */ piece) => piece
  const without = (/** @type {Buffer} */ piece) =>
    Buffer.from(piece.toString('latin1').replace(KEEP_ALIVE, ''), 'latin1')
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    const upstream = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
    sockets.add(client).add(upstream)
    carry(client, upstream, asItIs)
    carry(upstream, client, tellsIdleTime ? asItIs : without)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: /** @type {import('node:net').AddressInfo} */ (server.address()).port,
    stop() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
