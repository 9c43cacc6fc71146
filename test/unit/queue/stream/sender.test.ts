// What the sender hands to a socket: which messages, and that their bytes stay for as long as the socket may read them.

import type { NatsConnection } from '@nats-io/transport-node'
import { expect, it } from 'vitest'
import { systemTimers } from '../../../../src/lib/timers.ts'
import { AckWindow } from '../../../../src/queue/stream/ack-window.ts'
import { Lanes } from '../../../../src/queue/stream/lanes.ts'
import { Sender } from '../../../../src/queue/stream/sender.ts'
import { StreamState } from '../../../../src/queue/stream/stream-state.ts'
import { UnackedRecords } from '../../../../src/queue/stream/unacked-records.ts'

const ACK_TIMEOUT_MS = 3_600_000

/** A sender of keyed records, each a message of its own. `alone`: so many go alone. */
function makeSender(alone = Number.POSITIVE_INFINITY) {
  const lanes = new Lanes(1)
  const window = new AckWindow()
  const sender = new Sender({
    nodeId: 'node',
    inbox: 'inbox',
    ackTimeoutMs: ACK_TIMEOUT_MS,
    timers: systemTimers,
    lanes,
    window,
    unacked: new UnackedRecords(),
    state: new StreamState(
      () => {},
      () => 0,
    ),
    keyedAlone: () => alone,
  })
  let number = 0
  const add = (text: string, keyed = true): void => {
    number += 1
    const charge = { events: 1, takenAtMs: 0, minute: 0, cycleMinute: 0 }
    const record = { line: Buffer.from(text), batchId: `batch-${number}`, appId: 'demo', keyed, charge }
    const deadlineMs = systemTimers.monotonicMs() + ACK_TIMEOUT_MS
    lanes.push({ record, onAck: () => {}, deadlineMs, number, burntIds: 0, next: null })
  }
  const publish = (text: string): void => {
    add(text)
    sender.send()
  }
  return { sender, add, publish, window }
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

/** Of each message: its id or `gathered`, its place in a batch, and the numbers that its acknowledgement carries. */
function sent(given: readonly Buffer[]): string[] {
  const messages = given
    .join('')
    .matchAll(/HPUB sluice\.events\.0(?: inbox\.(\S+))? \d+ \d+\r\nNATS\/1\.0\r\n(.*?)\r\n\r\n/gs)
  return Array.from(messages, ([, numbers = '-', head]) => {
    const [id = ''] = /(?<=Nats-Msg-Id: )\S+/.exec(head) ?? []
    const [batch = ''] = /(?<=Nats-Batch-Id: )\S+/.exec(head) ?? []
    const [place = ''] = /(?<=Nats-Batch-Sequence: )\d+/.exec(head) ?? []
    return `${id} ${batch}${place && ':'}${place}${head.includes('Nats-Batch-Commit: 1') ? ' end' : ''} acked ${numbers}`
  })
}

it('sends more keyed records than go alone as one atomic batch, which is acknowledged as a whole', () => {
  const { sender, add } = makeSender(2)
  const { given, connection, socket } = makeConnection()
  socket.writableLength = 1
  sender.use(connection)
  for (const text of ['a', 'b', 'c']) add(text)
  sender.send()
  expect(sent(given)).toEqual([
    'batch-1 node-b1:1 acked -',
    'batch-2 node-b1:2 acked -',
    'batch-3 node-b1:3 end acked 1-3',
  ])
})

it('sends few keyed records alone, and gathers those that come while so many are in flight', () => {
  const { sender, add, publish, window } = makeSender(2)
  const { given, connection, socket } = makeConnection()
  socket.writableLength = 1
  sender.use(connection)
  publish('a')
  publish('b')
  publish('c')
  for (const text of ['d', 'e']) add(text)
  sender.send()
  expect(sent(given)).toEqual(['batch-1  acked 1', 'batch-2  acked 2'])
  window.take(1)
  sender.send()
  expect(sent(given).slice(2)).toEqual([
    'batch-3 node-b1:1 acked -',
    'batch-4 node-b1:2 acked -',
    'batch-5 node-b1:3 end acked 3-5',
  ])
})

it('keeps the order of an app where records without a key come between, and sends large records alone', () => {
  const { sender, add, window } = makeSender(1)
  const { given, connection, socket } = makeConnection()
  socket.writableLength = 1
  sender.use(connection)
  add('a')
  add('b')
  add('c', false)
  add('d'.repeat(100_000))
  add('e')
  sender.send()
  expect(sent(given)).toEqual(['batch-1 node-b1:1 acked -', 'batch-2 node-b1:2 end acked 1-2', 'node-1  acked 3'])
  for (const number of [1, 2, 3]) window.take(number)
  sender.send()
  expect(sent(given).slice(3)).toEqual(['batch-4  acked 4'])
  window.take(4)
  sender.send()
  expect(sent(given).slice(4)).toEqual(['batch-5  acked 5'])
})

it('sends keyed records alone for a while after a batch was refused', () => {
  const { sender, add } = makeSender(1)
  const { given, connection, socket } = makeConnection()
  socket.writableLength = 1
  sender.use(connection)
  sender.sendKeyedAlone()
  for (const text of ['a', 'b', 'c']) add(text)
  sender.send()
  expect(sent(given)).toEqual(['batch-1  acked 1', 'batch-2  acked 2', 'batch-3  acked 3'])
})
