import { type JsMsg, jetstreamManager } from '@nats-io/jetstream'
import { TimeoutError } from '@nats-io/transport-node'
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { partitionOf } from '../../src/contract/partition.ts'
import type { QueueRecord } from '../../src/queue/queue.ts'
import { readRange } from '../../src/queue/stream/read/stream-range.ts'
import { type ReadStreamOptions, readStream } from '../../src/queue/stream/read/stream-reader.ts'
import { subjectOf } from '../../src/queue/stream/stream.ts'
import { addStream, emptyNats, openReadyQueue, publishTo, withConnection } from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { freePort } from '../support/programs.ts'
import { eventually } from '../support/service.ts'

let nats: NatsServer
beforeAll(async () => {
  nats = await startNats()
})
beforeEach(() => emptyNats(nats.url))
afterEach(() => nats.resume())

/** One message each. */
async function store(records: readonly QueueRecord[]): Promise<void> {
  const { queue } = await openReadyQueue(nats.url)
  for (const record of records) expect(await publishTo(queue, record)).toMatchObject({ ack: 'durable' })
  await queue.stop()
}

const keyed = (count: number, appId = 'demo'): QueueRecord[] =>
  Array.from({ length: count }, () => makeRecord({ keyed: true, appId }))

const textOf = ({ line }: QueueRecord): string => Buffer.from(line).toString()

function reading(changes: Partial<ReadStreamOptions> = {}) {
  const aborter = new AbortController()
  const read: JsMsg[] = []
  const notices: string[] = []
  const ended = (async () => {
    const options = { nats: nats.url, from: 'start', follow: false, signal: aborter.signal, ...changes } as const
    for await (const message of readStream({ ...options, onNotice: (notice) => void notices.push(notice) })) {
      read.push(message)
    }
  })()
  const stop = async (): Promise<void> => {
    aborter.abort()
    await ended
  }
  return { read, notices, ended, stop, texts: () => read.map(({ data }) => Buffer.from(data).toString()) }
}

/** A reader that follows has begun. */
function hasConsumer(): Promise<void> {
  return withConnection(nats.url, async (connection) => {
    const { streams } = await jetstreamManager(connection)
    const count = async () => (await streams.info('SLUICE_EVENTS')).state.consumer_count
    await eventually('it reads', async () => (await count()) === 1)
  })
}

async function deleteMessages(sequences: readonly number[]): Promise<void> {
  await withConnection(nats.url, async (connection) => {
    const manager = await jetstreamManager(connection)
    for (const sequence of sequences) await manager.streams.deleteMessage('SLUICE_EVENTS', sequence)
  })
}

describe('reading the stream', () => {
  it('yields every message from the start, in order, with where it stands', async () => {
    const records = keyed(150)
    await store(records)
    const { read, ended, texts } = reading()
    await ended
    expect(texts()).toEqual(records.map(textOf))
    expect(read.map(({ seq }) => seq)).toEqual(records.map((_, index) => index + 1))
    for (const { subject } of read) {
      expect(subject).toBe(subjectOf(partitionOf('demo', 16)))
    }
  })

  it('leaves no consumer', async () => {
    const records = keyed(50)
    await store(records)
    const { ended, texts } = reading()
    await ended
    expect(texts()).toEqual(records.map(textOf))
    await withConnection(nats.url, async (connection) => {
      const manager = await jetstreamManager(connection)
      expect((await manager.streams.info('SLUICE_EVENTS')).state.consumer_count).toBe(0)
    })
  })

  it('yields only the messages of one subject', async () => {
    const [one, two] = [keyed(30, 'one'), keyed(30, 'two')]
    expect(partitionOf('one', 16)).not.toBe(partitionOf('two', 16))
    await store(one.flatMap((record, index) => [record, two[index]]))
    const { ended, texts } = reading({ subject: subjectOf(partitionOf('two', 16)) })
    await ended
    expect(texts()).toEqual(two.map(textOf))
  })

  it('passes over what was deleted', async () => {
    await addStream(nats.url, { duplicate_window: 600e9 })
    const records = keyed(120)
    await store(records)
    const deleted = [1, 2, 5, 6, 7, ...Array.from({ length: 60 }, (_, index) => 30 + index), 119, 120]
    await deleteMessages(deleted)
    const left = records.filter((_, index) => !deleted.includes(index + 1))
    for (const subject of [undefined, subjectOf(partitionOf('demo', 16))]) {
      const { ended, texts } = reading(subject === undefined ? {} : { subject })
      await ended
      expect(texts()).toEqual(left.map(textOf))
    }
  })

  it('ends where it is told, in a gap as well', async () => {
    const records = keyed(20)
    await store(records)
    await deleteMessages([8, 9, 10, 11, 12])
    const subject = subjectOf(partitionOf('demo', 16))
    await withConnection(nats.url, async (connection) => {
      for (const range of [
        { from: 5, until: 10 },
        { from: 5, until: 10, subject },
      ]) {
        const sequences: number[] = []
        for await (const { seq } of readRange(connection, range)) sequences.push(seq)
        expect(sequences).toEqual([5, 6, 7])
      }
    })
  })

  it('ends where the rest of its range is removed while it is read', async () => {
    await store(keyed(3000))
    await withConnection(nats.url, async (connection) => {
      const read: number[] = []
      for await (const { seq } of readRange(connection, { from: 1, until: 3000 })) {
        read.push(seq)
        if (read.length > 1) continue
        const manager = await jetstreamManager(connection)
        await manager.streams.purge('SLUICE_EVENTS')
      }
      expect(read.length).toBeLessThan(3000)
    })
  })

  it('goes on where NATS is too busy to say what is left, and asks again', async () => {
    // Much more than NATS sends ahead, so that the purge takes most of it.
    await store(Array.from({ length: 600 }, () => makeRecord({ fillBytes: 50_000 })))
    await withConnection(nats.url, async (connection) => {
      const request = connection.request.bind(connection)
      let unanswered = 0
      let isBusy = false
      connection.request = async (subject, ...rest) => {
        if (isBusy && subject.startsWith('$JS.API.CONSUMER.INFO.') && ++unanswered <= 2) throw new TimeoutError()
        return await request(subject, ...rest)
      }
      const { state } = await (await jetstreamManager(connection)).streams.info('SLUICE_EVENTS')
      const last = state.last_seq
      let read = 0
      for await (const { seq } of readRange(connection, { from: 1, until: last })) {
        read = seq
        if (isBusy) continue
        isBusy = true
        const manager = await jetstreamManager(connection)
        await manager.streams.purge('SLUICE_EVENTS')
      }
      expect(read).toBeLessThan(last)
      expect(unanswered).toBeGreaterThan(2)
    })
  })

  it('ends at once on an empty stream, and on none', async () => {
    const { ended, texts } = reading()
    await ended
    await addStream(nats.url)
    const again = reading()
    await again.ended
    expect([...texts(), ...again.texts()]).toEqual([])
  })

  it('follows from the end, and reads only what is stored later', async () => {
    await store(keyed(5))
    const { read, texts, stop } = reading({ from: 'end', follow: true })
    await hasConsumer()
    const records = keyed(40)
    await store(records)
    await eventually('all is read', () => read.length >= records.length)
    await stop()
    expect(texts()).toEqual(records.map(textOf))
  })

  it('waits for a stream that does not exist yet', async () => {
    const { read, texts, stop } = await withConnection(nats.url, async (connection) => {
      let looks = 0
      connection.subscribe('$JS.API.STREAM.INFO.SLUICE_EVENTS', { callback: () => void looks++ })
      await connection.flush()
      const started = reading({ from: 'end', follow: true })
      await eventually('it looks again, where it found none', () => looks > 1)
      return started
    })
    const records = keyed(3)
    await store(records)
    await eventually('all is read', () => read.length >= records.length)
    await stop()
    expect(texts()).toEqual(records.map(textOf))
  })

  it('goes on over a restart of NATS, with nothing lost and nothing twice', async () => {
    const before = keyed(40)
    await store(before)
    const { read, texts, notices, stop } = reading({ follow: true })
    await eventually('the first are read', () => read.length === before.length)
    await nats.kill()
    await eventually('the outage is told', () => notices.length > 0)
    await nats.restart()
    const after = keyed(40)
    await store(after)
    await eventually('the others are read', () => read.length >= 80)
    await stop()
    expect(texts()).toEqual([...before, ...after].map(textOf))
    expect(notices[1]).toMatch(/^reconnected, continuing at message \d+$/)
    expect(notices).toHaveLength(2)
  })

  it('goes on where it was when the connection breaks between two messages', async () => {
    const records = keyed(150)
    await store(records)
    const texts: string[] = []
    const options = { nats: nats.url, from: 'start', follow: true, signal: new AbortController().signal } as const
    for await (const { data } of readStream(options)) {
      texts.push(Buffer.from(data).toString())
      if (texts.length === 5 || texts.length === 70) await nats.restart()
      if (texts.length === records.length) break
    }
    expect(texts).toEqual(records.map(textOf))
  })

  it('goes on with a stream that was made anew', async () => {
    await store(keyed(20))
    const { read, texts, stop } = reading({ from: 'end', follow: true })
    await hasConsumer()
    await withConnection(nats.url, async (connection) => {
      const manager = await jetstreamManager(connection)
      await manager.streams.delete('SLUICE_EVENTS')
    })
    const records = keyed(4)
    await store(records)
    await eventually('they are read', () => read.length >= records.length)
    await stop()
    expect(texts()).toEqual(records.map(textOf))
  })

  it('says in one sentence that NATS cannot be reached', async () => {
    const port = await freePort()
    const { ended } = reading({ nats: `nats://someone:s3cret@127.0.0.1:${port}` })
    await expect(ended).rejects.toThrow(`NATS cannot be reached (127.0.0.1:${port}: connection refused)`)
  })
})
