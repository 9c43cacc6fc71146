import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { openJournal } from '../../src/queue/journal/journal.ts'
import { segmentPath } from '../../src/queue/journal/segments.ts'
import type { EventQueue, QueueAck, QueueRecord } from '../../src/queue/queue.ts'
import { emptyNats, openReadyQueue, readStreamPlainly } from '../support/jetstream.ts'
import { makeRecord, recordText } from '../support/journal.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { eventually, makeFolder } from '../support/service.ts'
import { NOBODY, openTestSpool, readSpoolPlainly } from '../support/spool.ts'

/** What these tests publish is stored, however long a busy machine takes. */
const ACK_TIMEOUT_MS = 30_000

interface Store {
  readonly open: () => Promise<EventQueue>
  /** All stored lines, oldest first, without newlines. */
  readonly lines: () => Promise<string[]>
}

type WithStore = (use: (store: Store) => Promise<void>) => Promise<void>

let nats: NatsServer
beforeAll(async () => {
  nats = await startNats()
})

const withJournal: WithStore = async (use) => {
  const directory = join(await makeFolder(), 'journal')
  await use({
    open: () => openJournal({ directory, maxBytes: 512 * 1024 * 1024, keepHours: null }),
    lines: async () => linesOf(await readFile(segmentPath(directory, 1), 'utf8')).map(recordText),
  })
}

const withStream: WithStore = async (use) => {
  await emptyNats(nats.url)
  await use({
    open: async () => (await openReadyQueue(nats.url, { ackTimeoutMs: ACK_TIMEOUT_MS })).queue,
    lines: async () => linesOf((await readStreamPlainly(nats.url)).map(({ text }) => text).join('')),
  })
}

/** While NATS takes records they are in its stream. */
const withSpool: WithStore = async (use) => {
  const folder = await makeFolder()
  await emptyNats(nats.url)
  await use({
    open: async () => {
      const { spool, stream } = await openTestSpool(folder, nats.url, {}, { ackTimeoutMs: ACK_TIMEOUT_MS })
      await eventually('the stream is up', () => stream.isUp)
      return spool
    },
    lines: async () => linesOf((await readStreamPlainly(nats.url)).map(({ text }) => text).join('')),
  })
}

/** While it takes none they are on the disk. */
const withSpoolAlone: WithStore = async (use) => {
  const folder = await makeFolder()
  await use({
    open: async () => (await openTestSpool(folder, NOBODY)).spool,
    lines: async () => (await readSpoolPlainly(folder)).map(({ line }) => line.toString().trimEnd()),
  })
}

function linesOf(text: string): string[] {
  expect(text === '' || text.endsWith('\n')).toBe(true)
  return text === '' ? [] : text.slice(0, -1).split('\n')
}

const lineOf = ({ line }: QueueRecord): string => Buffer.from(line).toString().trimEnd()

describe.each([
  ['the journal', withJournal],
  ['JetStream', withStream],
  ['the spool before JetStream', withSpool],
  ['the spool without NATS', withSpoolAlone],
])('%s as a queue', (_name, withStore) => {
  it('stores a record before it settles it as durable', () =>
    withStore(async ({ open, lines }) => {
      const queue = await open()
      for (const keyed of [true, false, true]) {
        const record = makeRecord({ keyed, events: 3 })
        expect(await publish(queue, record)).toBe('durable')
        expect(await lines()).toContain(lineOf(record))
      }
      await queue.stop()
    }))

  it('settles each of many records once, and after `publish` has returned', () =>
    withStore(async ({ open, lines }) => {
      const queue = await open()
      const records = Array.from({ length: 5000 }, (_, index) =>
        makeRecord({ keyed: index % 3 === 0, appId: `app-${index % 40}` }),
      )
      const acks = new Map<string, QueueAck[]>(records.map(({ batchId }) => [batchId, []]))
      let left = records.length
      await new Promise<void>((resolve) => {
        for (const record of records) {
          queue.publish(record, (ack) => {
            acks.get(record.batchId)?.push(ack)
            left -= 1
            if (left === 0) resolve()
          })
        }
        expect(left).toBe(records.length)
      })
      await queue.stop()
      for (const answers of acks.values()) expect(answers).toEqual(['durable'])
      expect((await lines()).toSorted()).toEqual(records.map(lineOf).toSorted())
    }))

  it('keeps the order of each app', () =>
    withStore(async ({ open, lines }) => {
      const queue = await open()
      const apps = ['one', 'two', 'three']
      const records = Array.from({ length: 600 }, (_, index) =>
        makeRecord({ keyed: index % 5 === 0, appId: apps[index % 3] }),
      )
      await Promise.all(records.map((record) => publish(queue, record)))
      const stored = await lines()
      for (const appId of apps) {
        const ofApp = (line: string): boolean => line.includes(`"app_id":"${appId}"`)
        expect(stored.filter(ofApp)).toEqual(records.map(lineOf).filter(ofApp))
      }
      await queue.stop()
    }))

  it('stores records of every possible size unchanged', () =>
    withStore(async ({ open, lines }) => {
      const queue = await open()
      const sizes = [0, 1, 1000, 60_000, 64_000, 66_000, 130_000, 524_288]
      const records = sizes.flatMap((fillBytes) => [
        makeRecord({ fillBytes, appId: 'sizes' }),
        makeRecord({ fillBytes, appId: 'sizes', keyed: true }),
      ])
      const settlements = await Promise.all(records.map((record) => publish(queue, record)))
      expect(new Set(settlements)).toEqual(new Set(['durable']))
      expect(await lines()).toEqual(records.map(lineOf))
      await queue.stop()
    }))

  it('does not read a line after it was acknowledged', () =>
    withStore(async ({ open, lines }) => {
      const queue = await open()
      const wanted: string[] = []
      const ring = Buffer.from(new SharedArrayBuffer(4096))
      const places = Array.from({ length: 8 }, (_, index) => ring.subarray(index * 512, index * 512 + 512))
      await Promise.all(
        places.map(async (place) => {
          for (let turn = 0; turn < 30; turn += 1) {
            const record = makeRecord({ keyed: turn % 2 === 0, fillBytes: turn })
            wanted.push(lineOf(record))
            place.fill(record.line, 0, record.line.length)
            await publish(queue, { ...record, line: place.subarray(0, record.line.length) })
            place.fill(0x21)
          }
        }),
      )
      expect((await lines()).toSorted()).toEqual(wanted.toSorted())
      await queue.stop()
    }))

  it('settles its records before it has stopped, and stores no later ones', () =>
    withStore(async ({ open, lines }) => {
      const queue = await open()
      expect(queue.refusalNow(600 * 1024)).toBe(null)
      const records = Array.from({ length: 400 }, (_, index) => makeRecord({ keyed: index % 2 === 0 }))
      let acks = 0
      const inHand = records.map(async (record) => {
        const ack = await publish(queue, record)
        acks += 1
        return ack
      })
      await queue.stop()
      await Promise.resolve()
      expect(acks).toBe(records.length)
      expect(new Set(await Promise.all(inHand))).toEqual(new Set(['durable']))
      const late = makeRecord()
      expect(queue.refusalNow(late.line.length)).toBe('stopping')
      expect(await publish(queue, late)).toBe('stopping')
      expect((await lines()).toSorted()).toEqual(records.map(lineOf).toSorted())
    }))

  it('accepts `publish` inside a ack', () =>
    withStore(async ({ open, lines }) => {
      const queue = await open()
      const records = Array.from({ length: 100 }, (_, index) => makeRecord({ keyed: index % 2 === 0 }))
      await new Promise<void>((resolve) => {
        const next = (index: number): void => {
          if (index === records.length) resolve()
          else queue.publish(records[index], () => next(index + 1))
        }
        next(0)
      })
      expect(await lines()).toEqual(records.map(lineOf))
      await queue.stop()
    }))
})

function publish(queue: EventQueue, record: QueueRecord): Promise<QueueAck> {
  return new Promise((resolve) => queue.publish(record, resolve))
}
