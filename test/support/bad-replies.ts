// A relay before a real Redis that spoils what Redis answers.

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

const repeated = (bytes: string, times: number): Buffer => Buffer.from(bytes.repeat(times))

/** By name: what comes in place of a piece that Redis has sent, mostly one reply. */
export const SPOILED: Readonly<Record<string, (piece: Buffer) => Buffer>> = {
  'a list that is too short': () => Buffer.from('*1\r\n:5\r\n'),
  'a status': () => Buffer.from('+OK\r\n'),
  'a number': () => Buffer.from(':7\r\n'),
  'nested lists': () => Buffer.from('*2\r\n*1\r\n*1\r\n:1\r\n*0\r\n'),
  'a text': () => Buffer.from('$5\r\nhello\r\n'),
  'one reply too many': (piece) => Buffer.concat([piece, Buffer.from('*-1\r\n$-1\r\n')]),
  'a thousand replies too many': (piece) => Buffer.concat([piece, repeated(':5\r\n', 1000)]),
  'every reply twice': (piece) => Buffer.concat([piece, piece]),
  'texts for numbers': (piece) => Buffer.from(piece.toString('latin1').replace(/:-?\d+/g, '$3\r\nNaN'), 'latin1'),
  'numbers beyond what is exact': (piece) =>
    Buffer.from(piece.toString('latin1').replace(/:-?\d+/g, ':9007199254740993'), 'latin1'),
}

export interface BadReplies {
  readonly port: number
  /** null: replies pass as they are. */
  spoil: ((piece: Buffer) => Buffer) | null
  stop(): void
}

export async function startBadReplies(redisPort: number): Promise<BadReplies> {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const redis = connect(redisPort, '127.0.0.1')
    for (const [socket, other] of [
      [client, redis],
      [redis, client],
    ]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', () => {})
      socket.on('close', () => other.destroy())
    }
    client.on('data', (piece) => redis.write(piece))
    redis.on('data', (piece) => client.write(relay.spoil === null ? piece : relay.spoil(piece)))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const relay: BadReplies = {
    port: (server.address() as AddressInfo).port,
    spoil: null,
    stop: () => {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
  return relay
}
