// The warehouse example at a real stream, which the service's publisher writes: each event once, however often it and NATS
// are killed, and whatever else is in the stream.

import { readFileSync } from 'node:fs'
import { cp, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  aRandomMoment,
  ask,
  type Example,
  type ExampleOptions,
  endInOrder,
  eventText,
  expectSaid,
  publishTexts,
  recordText,
  startExample,
  storedIn,
} from '../support/examples.ts'
import { type OpenQueue, openReadyQueue, publishTo, readStreamPlainly, withConnection } from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { eventually, makeFolder } from '../support/service.ts'

const ROUNDS = 12
const STREAM = 'SLUICE_EVENTS'

let folder: string
let nats: NatsServer
let opened: OpenQueue
let example: Example | undefined

beforeEach(async () => {
  folder = await makeFolder()
  nats = await startNats()
  opened = await openReadyQueue(nats.url)
})
afterEach(async () => {
  await example?.kill()
  example = undefined
  await opened.queue.stop()
  await nats.stop()
})

function start(changes: Partial<ExampleOptions> = {}): Example {
  example = startExample({ name: 'warehouse', folder, env: { NATS_URL: nats.url }, ...changes })
  return example
}

/** As the queue's writer would not, by other means. */
async function publishText(text: string, partition: number | string = 3): Promise<void> {
  await publishTexts(nats.url, [text], partition)
}

async function storedNames(): Promise<unknown[]> {
  const rows = await ask('SELECT name FROM events ORDER BY partition, sequence, event_index', storedIn(folder))
  return rows.map(({ name }) => name)
}

function event(name: string, members = ''): string {
  return recordText({ events: [eventText(name, members)] })
}

describe('the warehouse at a stream', () => {
  it('has each event once, however often it and NATS are killed', async () => {
    const running = start()
    for (let round = 0; round < ROUNDS; round += 1) {
      const over = new AbortController()
      const sending = (async () => {
        for (let turn = 0; turn < 20 && !over.signal.aborted; turn += 1) {
          const records = Array.from({ length: 50 }, (_, index) =>
            makeRecord({
              events: 1 + (index % 3),
              keyed: index % 2 === 0,
              appId: `app-${index}`,
              fillBytes: 20,
              receivedAtMs: Date.now(),
            }),
          )
          await Promise.all(records.map((record) => publishTo(opened.queue, record)))
        }
      })()
      await aRandomMoment(1500)
      await running.kill()
      if (round % 4 === 3) await nats.restart()
      over.abort()
      await sending
      running.start()
    }
    const texts = (await readStreamPlainly(nats.url)).flatMap(({ text }) => text.trimEnd().split('\n'))
    const records = texts.map((text) => JSON.parse(text) as { batch_id: string; events: unknown[] })
    const expected = new Map(records.map(({ batch_id: id, events }) => [id, events.length]))
    const total = [...expected.values()].reduce((sum, events) => sum + events, 0)
    await expectSaid(running, `\n${total} events in all`, 60_000)
    await endInOrder(running)
    const rows = await ask(
      'SELECT batch_id, count(*)::INTEGER AS events FROM events GROUP BY batch_id',
      storedIn(folder),
    )
    expect(new Map(rows.map(({ batch_id: id, events }) => [id, events]))).toEqual(expected)
    expect(total).toBeGreaterThan(1000)
  })

  it('has batches and events that come twice once, and is stopped by nothing else in the stream', async () => {
    const running = start()
    const twice = event('twice', ',"event_id":"1"')
    await publishText(`${twice}\n${twice}\n`)
    await publishText(`${twice}\n`)
    await publishText(`${event('same event', ',"event_id":"1"')}\n`)
    await publishText('no record\n')
    await publishText('\u0000\ufffd')
    await publishText('')
    await publishText(event('of version two').replace('"v":1', '"v":2'))
    await publishText(`${event('\\ud800', ',"event_id":{"a":1},"unknown":[null]')}\n${event('last')}`)
    await publishText(event('elsewhere'), "a/'b")
    await expectSaid(running, '\n4 events in all')
    await endInOrder(running)
    expect(await storedNames()).toEqual(['twice', '\ufffd', 'last', 'elsewhere'])
    const letters = readFileSync(join(folder, 'out', 'dead-letters.ndjson'), 'utf8')
      .trimEnd()
      .split('\n')
    expect(letters.map((line) => (JSON.parse(line) as { reason: string }).reason)).toEqual([
      'not JSON',
      'not JSON',
      'version 2 is unknown',
    ])
  })

  it('goes on from what it has stored where the server says otherwise', async () => {
    const running = start()
    await publishText(event('a'))
    await expectSaid(running, '\n1 events in all')
    await running.kill()
    await publishText(event('b'))
    // Somebody else acknowledged everything under its name.
    await withConnection(nats.url, async (connection) => {
      const manager = await jetstreamManager(connection)
      const consumer = await manager.jetstream().consumers.get(STREAM, 'warehouse')
      for await (const message of await consumer.fetch({ max_messages: 5, expires: 1000 })) message.ack()
    })
    running.start()
    await expectSaid(running, '\n2 events in all')
  })

  it('reads again what somebody else takes under its name', async () => {
    const running = start()
    await publishText(event('first'))
    await expectSaid(running, '\n1 events in all')
    await withConnection(nats.url, async (connection) => {
      const thief = await (await jetstreamManager(connection)).jetstream().consumers.get(STREAM, 'warehouse')
      let stolen = 0
      for (let number = 0; stolen === 0; number += 1) {
        const taking = thief.fetch({ max_messages: 1, expires: 1000 })
        await publishTexts(nats.url, [event(`event-${number}`), event(`event-${number}`)])
        for await (const _ of await taking) stolen += 1
      }
    })
    await expectSaid(running, 'a message is missing, or someone else reads under the same name')
    const stored = (await readStreamPlainly(nats.url)).length
    await expectSaid(running, `\n${stored} events in all`, 15_000)
  })

  it('reads a stream that was made again from its start, and keeps what it has', async () => {
    const running = start()
    for (const name of ['a', 'b', 'c']) await publishText(event(name))
    await expectSaid(running, '\n3 events in all')
    await withConnection(nats.url, async (connection) => {
      const manager = await jetstreamManager(connection)
      const { config } = await manager.streams.info(STREAM)
      await manager.streams.delete(STREAM)
      await manager.streams.add(config)
    })
    await publishText(event('d'))
    await expectSaid(running, '\n4 events in all')
  })

  it('loses nothing when the stream is put back to an old copy, whose next messages get numbers that it had read', async () => {
    const running = start()
    const copy = join(folder, 'copy')
    for (const name of ['a', 'b']) await publishText(event(name))
    await expectSaid(running, '\n2 events in all')
    await nats.kill()
    await cp(join(nats.folder, 'data'), copy, { recursive: true })
    await nats.restart()
    for (const name of ['c', 'd']) await publishText(event(name))
    await expectSaid(running, '\n4 events in all')
    await nats.kill()
    await rm(join(nats.folder, 'data'), { recursive: true })
    await rename(copy, join(nats.folder, 'data'))
    await nats.restart()
    for (const name of ['e', 'f', 'g']) await publishText(event(name))
    await expectSaid(running, 'the stream is not the one that was read up to 4')
    await expectSaid(running, '\n7 events in all')
  })

  it('reads the partitions that it is told, and from a time', async () => {
    await publishText(event('old'), 1)
    const storedBy = Date.now()
    await eventually('the millisecond in which the old event was stored is over', () => Date.now() > storedBy)
    const from = new Date().toISOString()
    await publishText(event('one'), 1)
    await publishText(event('two'), 2)
    await publishText(event('three'), 3)
    const running = start({ args: ['--subjects', 'sluice.events.1,sluice.events.2', '--from', from] })
    await expectSaid(running, '\n2 events in all')
    await endInOrder(running)
    expect(await storedNames()).toEqual(['one', 'two'])
  })

  it('says which messages were removed before it read them', async () => {
    const running = start()
    await publishText(event('a'))
    await expectSaid(running, '\n1 events in all')
    await running.kill()
    await publishText(event('gone'))
    await publishText(event('b'))
    await withConnection(nats.url, async (connection) => {
      await (await jetstreamManager(connection)).streams.purge(STREAM, { seq: 3 })
    })
    running.start()
    await expectSaid(running, 'messages 2 to 2 were removed from the stream before they were read')
    await expectSaid(running, '\n2 events in all')
  })
})
