// Reading what is stored from the newest record back, in the journal and in the stream of a real NATS.

import { randomUUID } from 'node:crypto'
import { appendFile, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { jetstream } from '@nats-io/jetstream'
import { beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { EventFilter } from '../../src/contract/admin/peers.ts'
import type { QueuePlace } from '../../src/inspect/find/find-in-queue.ts'
import { newestEvents, searchStored } from '../../src/inspect/find/stored-search.ts'
import { segmentPath } from '../../src/queue/journal/segments.ts'
import { type Batch, type BatchWish, makeBatch } from '../support/batches.ts'
import { addStream, emptyNats, withConnection } from '../support/jetstream.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { makeFolder } from '../support/service.ts'
import { NOBODY } from '../support/spool.ts'

const ALL: EventFilter = { app: null, type: null, name: null, user: null }
const KEY = '0b9e3a52-6f0c-4d7e-9a55-2f8c1d3e4b6a'
const MINUTE_MS = 60_000
/** So many that neither queue reads them at once. */
const MANY = 9000
const FILL = 'x'.repeat(300)

interface Event {
  readonly index: number
  readonly event: Readonly<Record<string, unknown>>
  readonly app_id: string
}

interface Found extends Partial<Event> {
  readonly kind: string
}

let nats: NatsServer
beforeAll(async () => {
  nats = await startNats()
})

const batch = (wish: Partial<BatchWish> = {}): Batch => makeBatch({ receivedAtMs: Date.now(), ...wish })

function eventsText(...events: readonly Record<string, unknown>[]): string {
  return JSON.stringify(events.map((event) => Object.assign({ type: 'track' }, event)))
}

/** One an event; the last one now. */
function many(count: number): Batch[] {
  return Array.from({ length: count }, (_, at) =>
    batch({ receivedAtMs: Date.now() - (count - at) * 10, events: eventsText({ name: `n${at}`, fill: FILL }) }),
  )
}

async function read(place: QueuePlace, filter: Partial<EventFilter> = {}, limit = 200) {
  const text = await newestEvents(place, { ...ALL, ...filter }, limit)
  const answer = JSON.parse(text) as {
    events: Event[]
    searched_back_to: string | null
    complete: boolean
    skipped: number
  }
  return { ...answer, text, names: answer.events.map(({ event }) => event['name']) }
}

async function search(place: QueuePlace, text: string, apps: readonly string[] = []) {
  // As they come from two turns.
  const ids = [apps.slice(0, 1), apps.slice(1)].map((some) => Buffer.from(some.join('\n')))
  const answer = await searchStored(place, text, ids)
  return JSON.parse(answer) as {
    found: Found[]
    query: string
    searched_back_to: string | null
    complete: boolean
    skipped: number
  }
}

interface Queue {
  readonly place: QueuePlace
  /** Each list is a segment of the journal; in the stream each batch is a message. */
  readonly write: (...parts: readonly (readonly Batch[])[]) => Promise<void>
}

async function aJournal(): Promise<Queue> {
  const dataDirectory = await makeFolder()
  const directory = join(dataDirectory, 'journal')
  await mkdir(directory)
  return {
    place: { dataDirectory, nats: null, partitions: 16, spool: null },
    write: async (...parts) => {
      for (const [at, part] of parts.entries()) {
        await writeFile(segmentPath(directory, 3 + at), part.map(({ line }) => line).join(''))
      }
    },
  }
}

async function aStream(): Promise<Queue> {
  await emptyNats(nats.url)
  await addStream(nats.url)
  const access = { url: nats.url, urlFile: null, credsFile: null, caFile: null, certFile: null, keyFile: null }
  return {
    place: { dataDirectory: '', nats: access, partitions: 16, spool: null },
    write: (...parts) =>
      withConnection(nats.url, async (connection) => {
        const client = jetstream(connection)
        // A keyed record has its id as the message's.
        const send = ({ id, line }: Batch) =>
          client.publish('sluice.events.1', line, id[14] === '5' ? { msgID: id } : {})
        const batches = parts.flat()
        for (let at = 0; at < batches.length; at += 500) await Promise.all(batches.slice(at, at + 500).map(send))
      }),
  }
}

describe.each([
  ['journal', aJournal],
  ['stream', aStream],
])('in the %s', (kind, make) => {
  let place: QueuePlace
  let write: Queue['write']
  beforeEach(async () => {
    const queue = await make()
    place = queue.place
    write = queue.write
    // However slow the machine is, there is time to read all.
    vi.spyOn(performance, 'now').mockReturnValue(0)
    vi.spyOn(AbortSignal, 'timeout').mockImplementation(() => new AbortController().signal)
    onTestFinished(() => void vi.restoreAllMocks())
  })

  test('the newest events come first, as they were sent, with their place in the batch', async () => {
    const precise = '[{"type":"track","name":"a"},{"type":"track","name":"b","n":12345678901234567890.10}]'
    await write([batch({ events: eventsText({ name: 'older' }) })], [batch({ appId: 'shop', events: precise })])
    const { events, names, text, complete } = await read(place)
    expect(names).toEqual(['b', 'a', 'older'])
    expect(events.map(({ index }) => index)).toEqual([1, 0, 0])
    expect(events[0]).toMatchObject({ app_id: 'shop', sdk_version: null, node: null })
    expect(text).toContain('"n":12345678901234567890.10}')
    expect(complete).toBe(true)
  })

  test('of many the newest 200, though each piece that is read has others', async () => {
    const records = many(MANY)
    await write(records.slice(0, 4000), records.slice(4000))
    const { names, complete } = await read(place)
    expect(names).toEqual(Array.from({ length: 200 }, (_, at) => `n${MANY - 1 - at}`))
    expect(complete).toBe(true)
    expect((await read(place, {}, 3)).names).toHaveLength(3)
  })

  test('no record is left out or read twice where one piece ends and the next begins, up to 4 MB', async () => {
    await write(many(MANY))
    const { names, complete } = await read(place, {}, 100_000)
    expect(names.length).toBeGreaterThan(7000)
    expect(names).toEqual(names.map((_, at) => `n${MANY - 1 - at}`))
    expect(complete).toBe(false)
  })

  test('events of a request with members beyond the schema are among them', async () => {
    const more = batch({ events: eventsText({ name: 'more' }) })
    await write([{ ...more, line: more.line.replace(/\}\n$/, ',"extra":{"events":[2]}}\n') }])
    expect(await read(place)).toMatchObject({ names: ['more'], skipped: 0 })
  })

  test('a filter is applied to all of them, however far back the one that fits is', async () => {
    const wanted = eventsText({ name: 'no' }, { type: 'revenue', name: 'yes 1' }, { name: 'yes 2' })
    await write([batch({ appId: 'shop', events: wanted, receivedAtMs: Date.now() - 2 * MINUTE_MS })], many(MANY))
    expect((await read(place, { app: 'shop' })).names).toEqual(['yes 2', 'yes 1', 'no'])
    expect((await read(place, { name: 'yes*' })).names).toEqual(['yes 2', 'yes 1'])
    expect((await read(place, { type: 'revenue' })).names).toEqual(['yes 1'])
    expect(await read(place, { app: 'none' })).toMatchObject({ events: [], complete: true })
  })

  test('an empty queue is said to be read whole', async () => {
    expect(await read(place)).toMatchObject({ events: [], searched_back_to: null, complete: true })
    expect(await search(place, KEY, ['shop'])).toEqual({
      found: [],
      query: KEY,
      searched_back_to: null,
      complete: true,
      skipped: 0,
    })
  })

  test('what is read when the time is over is answered, and how far it came', async () => {
    const records = many(50)
    await write(records)
    // Each look at the clock is a second later.
    let nowMs = 0
    vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 250))
    const answer = await read(place)
    expect(answer.complete).toBe(false)
    expect(answer.names.length).toBeGreaterThan(0)
    expect(answer.names.length).toBeLessThan(50)
    expect(answer.names).toEqual(Array.from({ length: answer.names.length }, (_, at) => `n${49 - at}`))
    const oldest = JSON.parse(records[50 - answer.names.length].line) as { received_at: string }
    expect(answer.searched_back_to).toBe(oldest.received_at)
    expect(await search(place, 'nobody')).toMatchObject({ found: [], complete: false })
  })

  test('a batch that is first looked for at the time in its id is not searched for longer', async () => {
    await write(many(50))
    // Each look at the clock is some time later, and the first part takes all the time that it may.
    let nowMs = 0
    vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 50))
    vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => {
      if (ms <= 2000) nowMs += ms
      return new AbortController().signal
    })
    expect(await search(place, batch().id)).toMatchObject({ found: [], complete: false })
    expect(nowMs).toBeLessThanOrEqual(2100)
  })

  test('the id of a batch is found, with and without a key, and the key of whichever app it is', async () => {
    const old = batch({ appId: 'shop', receivedAtMs: Date.now() - 3 * MINUTE_MS, events: eventsText({}, {}) })
    const keyed = batch({ appId: 'shop', key: KEY, receivedAtMs: Date.now() - 2 * MINUTE_MS })
    await write([old, keyed], many(MANY))
    const shop = { app_id: 'shop', batch_id: keyed.id }
    expect((await search(place, old.id)).found).toMatchObject([{ kind: 'batch', batch_id: old.id, events: 2 }])
    expect((await search(place, keyed.id.toUpperCase())).found).toMatchObject([{ kind: 'batch', ...shop }])
    expect((await search(place, KEY, ['demo', 'shop'])).found).toMatchObject([{ kind: 'key', key: KEY, ...shop }])
    expect((await search(place, `shop ${KEY.toUpperCase()}`)).found).toMatchObject([{ kind: 'key', ...shop }])
    expect(await search(place, `demo ${KEY}`)).toMatchObject({ found: [], complete: true })
  })

  test('a keyed batch is found by its id, or its app and key, further back than records are read one by one', async () => {
    const keyed = batch({ appId: 'shop', key: KEY, receivedAtMs: Date.now() - 2 * MINUTE_MS })
    await write([keyed], many(MANY))
    let nowMs = 0
    vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 250))
    const shop = { app_id: 'shop', batch_id: keyed.id }
    expect(await search(place, keyed.id)).toMatchObject({ found: [{ kind: 'batch', ...shop }], complete: true })
    expect((await search(place, `shop ${KEY}`)).found).toMatchObject([{ kind: 'key', key: KEY, ...shop }])
    expect(await search(place, KEY, ['shop'])).toMatchObject({ found: [], complete: false })
  })

  test('an event is found by its id, and those of a user, newest first and at most 50', async () => {
    const id = randomUUID()
    const users = Array.from({ length: 60 }, (_, at) =>
      batch({ events: eventsText({ name: `u${at}`, user_id: 'user-41' }, { user_id: 'user-411' }) }),
    )
    const wanted = batch({ events: eventsText({ name: 'other' }, { name: 'mine', event_id: id, user_id: 'user-41' }) })
    // The same text elsewhere is no id.
    const elsewhere = batch({ events: eventsText({ properties: { event_id: id, user_id: 'user-41' }, name: id }) })
    await write([wanted], [...users, elsewhere])
    const { found } = await search(place, id)
    expect(found).toMatchObject([
      { kind: 'event', batch_id: wanted.id, index: 1, event: { name: 'mine', event_id: id } },
    ])
    const ofUser = (await search(place, 'user-41')).found
    expect(ofUser.map((one) => [one.kind, one.event?.['name']])).toEqual(
      Array.from({ length: 50 }, (_, at) => ['user', `u${59 - at}`]),
    )
    expect((await search(place, 'User-41')).found).toEqual([])
  })

  test('a record that is damaged hides no other, and is counted', async () => {
    const good = batch({ events: eventsText({ name: 'good' }) })
    const bad = batch({ events: '[{"type":"track","name":"bad"' })
    const worse = batch({ events: '[{"type":tra,"name":"worse"}]' })
    // A shorter line of a journal is not looked at.
    await write([good, { id: '', line: `{"v":2,"fill":"${FILL}"}\n` }, worse, bad])
    // The newest one may just be written.
    expect(await read(place)).toMatchObject({ names: ['good'], skipped: 2 })
    expect(await search(place, 'worse')).toMatchObject({ found: [], skipped: 2 })
    if (kind === 'journal') {
      await appendFile(join(place.dataDirectory, 'journal', '000000000003.ndjson'), good.line.slice(0, -2))
      expect(await read(place)).toMatchObject({ names: ['good'], skipped: 3 })
    }
  })
})

describe('in the spool of this node, beside the stream', () => {
  const USER = 'user-41'
  const event = (name: string) => eventsText({ name, user_id: USER, event_id: randomUUID() })
  const eventIdOf = ({ line }: Batch): string => JSON.parse(line).events[0].event_id
  const minutesAgo = (minutes: number, name: string): Batch =>
    batch({ appId: 'shop', receivedAtMs: Date.now() - minutes * MINUTE_MS, events: event(name) })

  async function aSpool(...batches: readonly Batch[]): Promise<string> {
    const directory = await makeFolder()
    await mkdir(join(directory, 'worker-1', 'journal'), { recursive: true })
    const lines = batches.map(({ line }) => line.replace(/}\n$/, ',"spool":"29000000 28999000 plain"}\n'))
    await writeFile(segmentPath(join(directory, 'worker-1', 'journal'), 1), lines.join(''))
    return directory
  }

  test('events are those of one queue, by when they were received, each once and without what the spool adds', async () => {
    const [first, second, third, fourth] = [4, 3, 2, 1].map((minutes) => minutesAgo(minutes, `${minutes}`))
    const { place: stream, write } = await aStream()
    // The second one was sent, and is kept until NATS has synced it.
    await write([first, second], [fourth])
    const place = { ...stream, spool: { directory: await aSpool(second, third) } }
    const { names, text, complete } = await read(place)
    expect([names, complete]).toEqual([['1', '2', '3', '4'], true])
    expect(text).not.toContain('spool')
    expect((await search(place, USER)).found.map((one) => one.event?.['name'])).toEqual(['1', '2', '3', '4'])
    for (const wanted of [third, fourth])
      expect((await search(place, eventIdOf(wanted))).found).toMatchObject([{ kind: 'event', batch_id: wanted.id }])
    expect((await read(place, { app: 'other' })).names).toEqual([])
    expect((await read({ ...place, spool: { directory: await makeFolder() } })).names).toEqual(['1', '3', '4'])
  })

  test('events are found while NATS is away, and what is not there is not said to be nowhere', async () => {
    const kept = minutesAgo(1, 'kept')
    const access = { url: NOBODY, urlFile: null, credsFile: null, caFile: null, certFile: null, keyFile: null }
    const directory = await aSpool(kept)
    const place = { dataDirectory: '', nats: access, partitions: 16, spool: { directory } }
    expect(await read(place)).toMatchObject({ names: ['kept'], complete: false })
    expect(await search(place, USER)).toMatchObject({ found: [{ kind: 'user' }], complete: false })
    expect(await search(place, eventIdOf(kept))).toMatchObject({ found: [{ kind: 'event' }] })
    expect(await search(place, KEY, ['shop']).catch(String)).toMatch(/NATS cannot be reached/)
    expect(await search(place, 'nobody').catch(String)).toMatch(/NATS cannot be reached/)
    expect(await read({ ...place, spool: null }).catch(String)).toMatch(/NATS cannot be reached/)
  })
})

test('a journal of lines that are no records takes no more time and memory than another', async () => {
  const { place, write } = await aJournal()
  await write([batch()])
  await writeFile(
    segmentPath(join(place.dataDirectory, 'journal'), 4),
    '\n'.repeat(4_000_000) + 'a\n'.repeat(2_000_000),
  )
  onTestFinished(() => void vi.restoreAllMocks())
  vi.spyOn(performance, 'now').mockReturnValue(0)
  expect((await read(place)).events).toHaveLength(1)
  let nowMs = 0
  vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 1500))
  expect(await read(place)).toMatchObject({ events: [], searched_back_to: null, complete: false })
})
