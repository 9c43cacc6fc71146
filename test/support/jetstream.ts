// What the tests of the JetStream queue share: an open queue with what it said, and the stream as another program sees it.

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { jetstreamManager, type StreamConfig } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import type { QueueAck, QueueRecord } from '../../src/queue/queue.ts'
import { openPublisher, type StreamPublisher } from '../../src/queue/stream/publisher.ts'
import type { PublisherOptions } from '../../src/queue/stream/publisher-options.ts'
import type { NewStream } from '../../src/queue/stream/stream.ts'
import type { NatsServer } from './nats.ts'
import { eventually } from './service.ts'

/** As the settings have it where nothing is set. */
export const NEW_STREAM: NewStream = { replicas: 1, keepMs: 72 * 3_600_000, maxBytes: null }

/** A connection to a stream of this size, as it is when it is asked. */
export function streamOf(facts: { bytes: number; config: object; account?: object }): NatsConnection {
  const request = (subject: string): Promise<{ data: Buffer }> => {
    if (subject === '$JS.API.INFO') return Promise.resolve({ data: Buffer.from(JSON.stringify(facts.account ?? {})) })
    const config = {
      subjects: ['sluice.events.*'],
      storage: 'file',
      retention: 'limits',
      discard: 'new',
      ...facts.config,
    }
    const state = { messages: 1, bytes: facts.bytes, first_seq: 1, last_seq: 1, first_ts: '2026-11-20T12:00:00Z' }
    const answer = { config: { duplicate_window: 600e9, ...config }, created: '2026-11-20T12:00:00Z', state }
    return Promise.resolve({ data: Buffer.from(JSON.stringify(answer)) })
  }
  const features = { get: () => ({ ok: true, min: '' }) }
  return { options: {}, features, request } as unknown as NatsConnection
}

export interface OpenQueue {
  readonly queue: StreamPublisher
  readonly notices: readonly string[]
  /** Records of each message that became durable. */
  readonly commits: readonly number[]
}

export function openQueue(url: string, changes: Partial<PublisherOptions> = {}): OpenQueue {
  const notices: string[] = []
  const commits: number[] = []
  const queue = openPublisher({
    nats: url,
    nodeId: randomBytes(6).toString('hex'),
    partitions: 16,
    newStream: NEW_STREAM,
    onNotice: (message) => void notices.push(message),
    onCommit: (records) => void commits.push(records),
    ...changes,
  })
  return { queue, notices, commits }
}

export async function openReadyQueue(url: string, changes: Partial<PublisherOptions> = {}): Promise<OpenQueue> {
  const opened = openQueue(url, changes)
  await eventually('the queue is up', () => opened.queue.isUp)
  return opened
}

export interface Outcome {
  readonly ack: QueueAck
  readonly storedEvents: number | undefined
  readonly afterMs: number
}

/** Throws, where nobody catches it, if it is settled more than once or during the call. */
export function publishTo(queue: StreamPublisher, record: QueueRecord): Promise<Outcome> {
  return new Promise((resolve) => {
    const startedAtMs = performance.now()
    let isSettled = false
    let hasReturned = false
    queue.publish(record, (ack, storedEvents) => {
      if (!hasReturned) throw new Error('settled during the call')
      if (isSettled) throw new Error('settled twice')
      isSettled = true
      resolve({ ack, storedEvents, afterMs: performance.now() - startedAtMs })
    })
    hasReturned = true
  })
}

export async function settlementsOf(outcomes: Iterable<Promise<Outcome>>): Promise<QueueAck[]> {
  return (await Promise.all(outcomes)).map(({ ack }) => ack)
}

/** Like a start with nothing stored, which takes a tenth of a second of CPU. */
export async function emptyNats(url: string): Promise<void> {
  await withConnection(url, async (connection) => {
    const { streams } = await jetstreamManager(connection)
    for await (const name of streams.names()) await streams.delete(name)
  })
}

export interface SeenMessage {
  readonly sequence: number
  readonly subject: string
  readonly id: string
  /** Its header Sluice-Cost. */
  readonly cost: string
  readonly text: string
}

/** Everything in the stream, by the client's own means. */
export async function readStreamPlainly(url: string): Promise<SeenMessage[]> {
  return await withConnection(url, async (connection) => {
    const manager = await jetstreamManager(connection)
    const { state } = await manager.streams.info('SLUICE_EVENTS')
    const seen: SeenMessage[] = []
    for (let sequence = state.first_seq; sequence <= state.last_seq; sequence += 1) {
      const message = await manager.streams.getMessage('SLUICE_EVENTS', { seq: sequence })
      if (message === null) continue
      const { header, subject } = message
      seen.push({
        sequence,
        subject,
        id: header.get('Nats-Msg-Id'),
        cost: header.get('Sluice-Cost'),
        text: Buffer.from(message.data).toString(),
      })
    }
    return seen
  })
}

/** How often each batch is in the stream. An empty message holds none: by it a node asks after an id, or whether NATS is back. */
export function countBatches(messages: readonly SeenMessage[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { text } of messages) {
    if (text === '') continue
    for (const line of text.trimEnd().split('\n')) {
      const { batch_id: batchId } = JSON.parse(line) as { batch_id: string }
      counts.set(batchId, (counts.get(batchId) ?? 0) + 1)
    }
  }
  return counts
}

export async function addStream(url: string, changes: Partial<StreamConfig> = {}): Promise<void> {
  await withConnection(url, async (connection) => {
    const manager = await jetstreamManager(connection)
    await manager.streams.add({ name: 'SLUICE_EVENTS', subjects: ['sluice.events.*'], ...changes })
  })
}

export async function streamConfig(url: string): Promise<StreamConfig> {
  return await withConnection(url, async (connection) => {
    const manager = await jetstreamManager(connection)
    return (await manager.streams.info('SLUICE_EVENTS')).config
  })
}

/** SIGSTOP, and until it has taken hold: signals are delivered in their own time. */
export async function freeze(nats: NatsServer): Promise<void> {
  nats.freeze()
  const state = () => readFileSync(`/proc/${nats.pid}/stat`, 'utf8').split(') ').at(-1)?.[0]
  await eventually('it is stopped', () => state() === 'T')
}

/** The queue sends what it was given in a later turn of the event loop. */
export async function untilSent(): Promise<void> {
  for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setImmediate(resolve))
}

export async function withConnection<T>(url: string, use: (connection: NatsConnection) => Promise<T>): Promise<T> {
  const connection = await connect({ servers: [url] })
  try {
    return await use(connection)
  } finally {
    await connection.close()
  }
}
