import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { NatsConnection } from '@nats-io/transport-node'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { hasSentAll, sendRaw } from '../../../../src/nats/connection.ts'
import type { Entry, Parcel } from '../../../../src/queue/stream/lanes.ts'
import { MessageWriter } from '../../../../src/queue/stream/message-writer.ts'
import { encodedBytes, type NewMessage } from '../../../../src/queue/stream/nats-message.ts'

const MEBIBYTE = 1024 * 1024
const A_CHARGE = { events: 1, takenAtMs: 0, minute: 0, cycleMinute: 0 }

/** A message of records of these lengths, each filled with its own byte. */
function message(number: number, lengths: readonly number[]): NewMessage {
  let first: Entry | null = null
  for (const [at, length] of [...lengths.entries()].reverse()) {
    const line = new Uint8Array(new SharedArrayBuffer(length)).fill((number * 31 + at) & 0xff)
    const record = { line, batchId: '', appId: 'demo', keyed: false, charge: A_CHARGE }
    first = { record, onAck: () => {}, deadlineMs: 0, number, burntIds: 0, next: first }
  }
  if (first === null) throw new Error('a message has records')
  const bytes = lengths.reduce((sum, length) => sum + length, 0)
  const parcel: Parcel = { first, records: lengths.length, bytes }
  return { head: `HPUB events.${number} reply 10 ${bytes}\r\n`, parcel }
}

function plainBytes({ head, parcel }: NewMessage): Buffer {
  const lines: Uint8Array[] = []
  for (let entry: Entry | null = parcel.first; entry !== null; entry = entry.next) lines.push(entry.record.line)
  return Buffer.concat([Buffer.from(head), ...lines, Buffer.from('\r\n')])
}

const lengths = fc.array(fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 700_000 })), {
  minLength: 1,
  maxLength: 3,
})

describe('the writer of messages', () => {
  it('writes each message as it is, in order, in pieces that stay until their memory is used again', () => {
    fc.assert(
      fc.property(fc.array(fc.array(lengths, { maxLength: 6 }), { minLength: 1, maxLength: 6 }), (turns) => {
        const writer = new MessageWriter()
        const pieces: Buffer[] = []
        const plain: Buffer[] = []
        for (const turn of turns) {
          const messages = turn.map((each, number) => message(number, each))
          pieces.push(...writer.write(messages))
          plain.push(...messages.map(plainBytes))
        }
        expect(Buffer.concat(pieces).equals(Buffer.concat(plain))).toBe(true)
      }),
      { numRuns: 50 },
    )
  })

  it('joins the messages of a turn, and uses the same memory again', () => {
    const writer = new MessageWriter()
    const memory = new Set<ArrayBufferLike>()
    for (let turn = 0; turn < 100; turn += 1) {
      writer.reuse()
      const pieces = writer.write([message(1, [1000]), message(2, [60_000]), message(3, [5])])
      expect(pieces).toHaveLength(1)
      memory.add(pieces[0].buffer)
    }
    expect(memory.size).toBe(1)
  })

  it('keeps eight mebibytes at most, where nothing is taken, and gives the rest memory of its own', () => {
    const writer = new MessageWriter()
    const half = message(1, [MEBIBYTE / 2 - 1000])
    const kept = writer.write(Array.from({ length: 16 }, () => half))
    expect(kept.map(({ length }) => length)).toEqual(Array.from({ length: 8 }, () => 2 * encodedBytes(half)))
    const beyond = writer.write([half, half])
    expect(beyond.map(({ buffer }) => buffer.byteLength)).toEqual([encodedBytes(half), encodedBytes(half)])
    writer.reuse()
    expect(kept.map(({ buffer }) => buffer)).toContain(writer.write([half])[0].buffer)
  })

  it('does not touch again what it has to forget', () => {
    const writer = new MessageWriter()
    const [before] = writer.write([message(1, [100])])
    const copy = Buffer.from(before)
    writer.forget()
    writer.write([message(2, [100])])
    expect(before.equals(copy)).toBe(true)
  })

  it('sends the right bytes to a server that stops reading for a while', async () => {
    const server = createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    const [reader] = (await once(server, 'connection')) as [Socket]
    const received: Buffer[] = []
    reader.on('data', (bytes) => received.push(bytes))
    const connection = connectionOver(socket)

    const writer = new MessageWriter()
    const sent: Buffer[] = []
    const memory: Set<ArrayBufferLike>[] = []
    for (let round = 0; round < 3; round += 1) {
      memory.push(new Set())
      reader.pause()
      // More than the two sockets hold.
      for (let number = 0; number < 400; number += 1) {
        const messages = [message(number, [50_000, 100, 1 + number]), message(number + 1, [1000])]
        if (hasSentAll(connection)) writer.reuse()
        for (const piece of writer.write(messages)) {
          memory[round].add(piece.buffer)
          sendRaw(connection, piece)
        }
        sent.push(...messages.map(plainBytes))
      }
      expect(hasSentAll(connection)).toBe(false)
      reader.resume()
      while (!hasSentAll(connection)) await new Promise((resolve) => setImmediate(resolve))
    }
    socket.end()
    await once(reader, 'end')
    server.close()
    await once(server, 'close')
    expect(Buffer.concat(received).equals(Buffer.concat(sent))).toBe(true)
    expect([...memory[2]].some((block) => memory[0].has(block))).toBe(true)
  })
})

/** As the client of NATS has it: bytes gather, and go into the socket as one frame. */
function connectionOver(socket: Socket): NatsConnection {
  const gathered: Uint8Array[] = []
  const outbound = {
    fill: (bytes: Uint8Array) => void gathered.push(bytes),
    drain: () => (gathered.length === 1 ? gathered.pop() : Buffer.concat(gathered.splice(0))),
    length: () => gathered.length,
  }
  const transport = { socket, send: (frame: Uint8Array) => void socket.write(frame) }
  return { protocol: { connected: true, outbound, transport } } as unknown as NatsConnection
}
