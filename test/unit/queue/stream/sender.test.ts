// What the sender hands to a socket stays as it is for as long as the socket may read it.

import type { NatsConnection } from '@nats-io/transport-node'
import { expect, it } from 'vitest'
import { systemTimers } from '../../../../src/lib/timers.ts'
import { AckWindow } from '../../../../src/queue/stream/ack-window.ts'
import { Lanes } from '../../../../src/queue/stream/lanes.ts'
import { Sender } from '../../../../src/queue/stream/sender.ts'
import { StreamState } from '../../../../src/queue/stream/stream-state.ts'
import { UnackedRecords } from '../../../../src/queue/stream/unacked-records.ts'

const ACK_TIMEOUT_MS = 3_600_000

/** A sender of keyed records, each a message of its own. */
function makeSender() {
  const lanes = new Lanes(1)
  const sender = new Sender({
    nodeId: 'node',
    inbox: 'inbox',
    ackTimeoutMs: ACK_TIMEOUT_MS,
    timers: systemTimers,
    lanes,
    window: new AckWindow(),
    unacked: new UnackedRecords(),
    state: new StreamState(() => {}),
    keyedAlone: () => Number.POSITIVE_INFINITY,
  })
  let number = 0
  const publish = (text: string): void => {
    number += 1
    const charge = { events: 1, takenAtMs: 0, minute: 0, cycleMinute: 0 }
    const record = { line: Buffer.from(text), batchId: `batch-${number}`, appId: 'demo', keyed: true, charge }
    const deadlineMs = systemTimers.monotonicMs() + ACK_TIMEOUT_MS
    lanes.push({ record, onAck: () => {}, deadlineMs, number, burntIds: 0, next: null })
    sender.send()
  }
  return { sender, publish }
}

/** A connection whose socket has, or has not, handed on what it was given. */
function makeConnection() {
  const socket = { writableLength: 0 }
  const given: Buffer[] = []
  const outbound = { fill: (bytes: Buffer) => void given.push(bytes), drain: () => given.at(-1), length: () => 0 }
  const protocol = { connected: true, outbound, transport: { socket, send: () => {} } }
  const connection = { info: { max_payload: 1_000_000 }, isClosed: () => false, protocol }
  return { socket, given, connection: connection as unknown as NatsConnection }
}

it('uses the memory of its messages again once the socket has handed all of it on, and not before', () => {
  const { sender, publish } = makeSender()
  const { socket, given, connection } = makeConnection()
  sender.use(connection)
  publish('first')
  socket.writableLength = given[0].length
  const before = Buffer.from(given[0])
  publish('other')
  expect(given[0].equals(before)).toBe(true)
  expect(given[1].toString()).toContain('other')
  socket.writableLength = 0
  publish('third')
  expect(given[0].equals(before)).toBe(false)
  expect(given[2].toString()).toContain('third')
})

it.each([
  ['after it has heard that the first is gone', true],
  ['at once', false],
])('leaves the memory that a broken connection may still read alone, where the next one comes %s', (_when, isTold) => {
  const { sender, publish } = makeSender()
  const [broken, next] = [makeConnection(), makeConnection()]
  sender.use(broken.connection)
  publish('first')
  broken.socket.writableLength = broken.given[0].length
  const before = Buffer.from(broken.given[0])
  if (isTold) sender.use(null)
  sender.use(next.connection)
  publish('other')
  expect(next.given[0].toString()).toContain('other')
  expect(broken.given[0].equals(before)).toBe(true)
})
