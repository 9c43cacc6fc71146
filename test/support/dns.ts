// A DNS server on this machine for the tests' names: it answers 127.0.0.1 to who asks for some, and nothing to others.

import { createSocket } from 'node:dgram'
import { once } from 'node:events'

const HEAD_BYTES = 12
const TYPE_A = 1

export interface DnsServer {
  readonly port: number
  /** The names that were asked for, also those that got no answer. */
  readonly asked: readonly string[]
  stop(): void
}

export async function startDns(names: readonly string[], host = '127.0.0.1', port = 0): Promise<DnsServer> {
  const asked: string[] = []
  const socket = createSocket('udp4', (query, { address, port: from }) => {
    const labels: string[] = []
    let at = HEAD_BYTES
    for (; query[at] > 0; at += 1 + query[at]) labels.push(query.toString('latin1', at + 1, at + 1 + query[at]))
    const name = labels.join('.').toLowerCase()
    asked.push(name)
    if (!names.includes(name)) return
    const question = query.subarray(HEAD_BYTES, at + 5)
    const isA = query.readUInt16BE(at + 1) === TYPE_A
    const head = Buffer.from(query.subarray(0, HEAD_BYTES))
    // A response without error: one question, one address or none.
    head.writeUInt16BE(0x8180, 2)
    for (const [place, count] of [1, isA ? 1 : 0, 0, 0].entries()) head.writeUInt16BE(count, 4 + 2 * place)
    const record = Buffer.from([0xc0, HEAD_BYTES, 0, TYPE_A, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1])
    socket.send(Buffer.concat([head, question, ...(isA ? [record] : [])]), from, address)
  })
  socket.bind(port, host)
  await once(socket, 'listening')
  return { port: socket.address().port, asked, stop: () => socket.close() }
}
