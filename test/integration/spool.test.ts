// The spool before a real NATS: what it took while NATS was away is in the stream once, whatever ends meanwhile.

import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import { beforeAll, describe, expect, it } from 'vitest'
import { partitionOf } from '../../src/contract/partition.ts'
import { damagedDirectory, journalDirectory, segmentPath } from '../../src/queue/journal/segments.ts'
import type { QueueAck, QueueRecord } from '../../src/queue/queue.ts'
import { subjectOf } from '../../src/queue/stream/stream.ts'
import {
  countBatches,
  emptyNats,
  freeze,
  openReadyQueue,
  readStreamPlainly,
  withConnection,
} from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { eventually, makeFolder } from '../support/service.ts'
import { NOBODY, openTestSpool, readSpoolPlainly, type TestSpool, untilSpoolIsEmpty } from '../support/spool.ts'
import { STREAM } from '../support/stream.ts'

let nats: NatsServer
beforeAll(async () => {
  nats = await startNats()
})

const HOUR_MS = 3_600_000

function publish({ spool }: Pick<TestSpool, 'spool'>, record: QueueRecord): Promise<QueueAck> {
  return new Promise((resolve) => spool.publish(record, resolve))
}

async function publishAll(opened: TestSpool, records: readonly QueueRecord[]): Promise<void> {
  const acks = await Promise.all(records.map((record) => publish(opened, record)))
  expect(new Set(acks)).toEqual(new Set(['durable']))
}

function recordsOf(count: number, receivedAtMs = Date.now()): QueueRecord[] {
  return Array.from({ length: count }, (_, at) =>
    makeRecord({ keyed: at % 2 === 0, appId: `app${at % 5}`, receivedAtMs }),
  )
}

async function expectOnce(records: readonly QueueRecord[]): Promise<void> {
  const counts = countBatches(await readStreamPlainly(nats.url))
  expect(records.map(({ batchId }) => counts.get(batchId) ?? 0)).toEqual(records.map(() => 1))
}

/** What a process leaves that dies: its folder as it is, and nothing under way any more. */
async function die({ stream, spool }: TestSpool): Promise<void> {
  await stream.stop()
  await spool.stop()
}

/** The duplicate window forgets what it knew. */
async function forgetIds(): Promise<void> {
  await withConnection(nats.url, async (connection) => {
    const manager = await jetstreamManager(connection)
    await manager.streams.update(STREAM, { duplicate_window: 100_000_000 })
    const record = makeRecord({ keyed: true })
    // Until an id can be used twice.
    await eventually('it has forgotten', async () => {
      await storeInStream(record, record.batchId)
      const { state } = await manager.streams.info(STREAM, { subjects_filter: subjectOf(partitionOf('demo', 16)) })
      return (state.subjects?.[subjectOf(partitionOf('demo', 16))] ?? 0) > 1
    })
  })
}

/** Stored by somebody else, under this id. */
async function storeInStream(record: QueueRecord, id: string): Promise<void> {
  await withConnection(nats.url, async (connection) => {
    const head = headers()
    head.set('Nats-Msg-Id', id)
    const { minute, cycleMinute, events } = record.charge
    head.set('Sluice-Cost', `${minute} ${cycleMinute} ${record.appId} ${events}`)
    await connection.request(subjectOf(partitionOf(record.appId, 16)), record.line, { headers: head, timeout: 2000 })
  })
}

describe('while NATS is away', () => {
  it('takes batches at once, sends them when it is back, and leaves nothing on the disk', async () => {
    const folder = await makeFolder()
    await emptyNats(nats.url)
    const opened = await openTestSpool(folder, nats.url)
    await eventually('up', () => opened.stream.isUp)
    await nats.kill()
    await eventually('away', () => opened.spool.refusalNow(0) === null && !opened.spool.isTaking)
    const records = recordsOf(300)
    await publishAll(opened, records)
    expect(opened.spool.contents.batches).toBe(300)
    expect(opened.spool.status.state).toBe('spooling')
    expect([...opened.counted.values()].reduce((sum, events) => sum + events, 0)).toBe(300)
    await nats.restart()
    await untilSpoolIsEmpty(opened)
    await expectOnce(records)
    expect([...opened.counted.values()].every((events) => events === 0)).toBe(true)
    await eventually('the disk is empty', async () => (await readSpoolPlainly(folder)).length === 0)
    expect(opened.notices.some((text) => text.includes('they are spooled'))).toBe(true)
    expect(opened.notices.some((text) => text.includes('the first of the spool is sent, and 299 more follow'))).toBe(
      true,
    )
    await opened.spool.stop()
  })

  it('takes all batches until NATS has shown that it syncs, and sends them from there', async () => {
    const folder = await makeFolder()
    await emptyNats(nats.url)
    let isSyncShown = false
    const opened = await openTestSpool(folder, nats.url, { syncMs: () => 60_000, isSyncShown: () => isSyncShown })
    await eventually('up', () => opened.stream.isUp)
    const records = recordsOf(40)
    await publishAll(opened, records)
    expect(opened.spool.status.state).toBe('unsynced')
    expect(await readSpoolPlainly(folder)).toHaveLength(40)
    await untilSpoolIsEmpty(opened)
    await expectOnce(records)
    expect(opened.notices.some((text) => text.includes('batches are spooled on'))).toBe(true)
    isSyncShown = true
    const later = recordsOf(1)
    await publishAll(opened, later)
    await expectOnce(later)
    expect(await readSpoolPlainly(folder)).toHaveLength(40)
    await opened.spool.stop()
  })

  it('keeps each byte of a record', async () => {
    const folder = await makeFolder()
    await emptyNats(nats.url)
    const alone = await openTestSpool(folder, NOBODY)
    const records = [0, 1, 65_000, 520_000].map((fillBytes) => makeRecord({ fillBytes, keyed: true }))
    await publishAll(alone, records)
    await die(alone)
    const opened = await openTestSpool(folder, nats.url)
    await untilSpoolIsEmpty(opened)
    const texts = (await readStreamPlainly(nats.url)).map(({ text }) => text)
    expect(texts).toEqual(records.map(({ line }) => Buffer.from(line).toString()))
    await opened.spool.stop()
  })

  it('writes files that this user alone can read', async () => {
    const folder = await makeFolder()
    const opened = await openTestSpool(folder, NOBODY)
    await publishAll(opened, recordsOf(1))
    for (const name of ['cursor.json', 'journal/000000000001.ndjson']) {
      expect((await stat(join(folder, name))).mode & 0o777).toBe(0o600)
    }
    await die(opened)
  })

  it('refuses with spool_full where its floor of free space is reached', async () => {
    const folder = await makeFolder()
    const space = async () => ({ freeBytes: 2 * 1024 ** 3 + 10_000, totalBytes: 1024 ** 3 })
    const opened = await openTestSpool(folder, NOBODY, { space })
    const [first, second] = [makeRecord({ fillBytes: 5000 }), makeRecord({ fillBytes: 6000 })]
    expect(await publish(opened, first)).toBe('durable')
    expect(await publish(opened, second)).toBe('spool_full')
    expect(opened.spool.status.state).toBe('spooling')
    expect(opened.spool.refusalNow(6000)).toBe('spool_full')
    await die(opened)
  })

  it('holds nothing, and says so, where its disk has less room than that floor', async () => {
    const space = async () => ({ freeBytes: 1024 ** 3, totalBytes: 1024 ** 3 })
    const opened = await openTestSpool(await makeFolder(), NOBODY, { space })
    expect(opened.maxBytes()).toBe(0)
    expect(opened.notices).toContainEqual(expect.stringMatching(/^the spool is full \(0 B of 0 B\): .*make room there/))
    expect(await publish(opened, makeRecord())).toBe('spool_full')
    await die(opened)
  })

  it('passes the keys of the last five minutes to the next process', async () => {
    const folder = await makeFolder()
    const before = await openTestSpool(folder, NOBODY)
    const young = makeRecord({ keyed: true, receivedAtMs: Date.now() })
    const old = makeRecord({ keyed: true, receivedAtMs: Date.now() - 301_000 })
    await publishAll(before, [young, old])
    await die(before)
    const after = await openTestSpool(folder, NOBODY)
    expect(after.keys).toEqual([young.batchId])
    expect(after.counted.get('demo')).toBe(2)
    expect(after.spool.contents.batches).toBe(2)
    await die(after)
  })
})

describe('while NATS does not answer', () => {
  it('takes what was not acknowledged in half a second, and stores it once', async () => {
    const folder = await makeFolder()
    await emptyNats(nats.url)
    const opened = await openTestSpool(folder, nats.url)
    await eventually('up', () => opened.stream.isUp)
    await freeze(nats)
    const startedMs = performance.now()
    const first = recordsOf(50)
    await publishAll(opened, first)
    expect(performance.now() - startedMs).toBeGreaterThan(490)
    expect((await readSpoolPlainly(folder)).some(({ state }) => state === 'doubt')).toBe(true)
    const later = recordsOf(50)
    await publishAll(opened, later)
    nats.resume()
    await untilSpoolIsEmpty(opened)
    await expectOnce([...first, ...later])
    await opened.spool.stop()
  })

  it('stores what was in doubt once though the outage outlasts the duplicate window', async () => {
    const folder = await makeFolder()
    await emptyNats(nats.url)
    const takenAtMs = Date.now() - HOUR_MS
    const [stored, gathered, lost] = [
      makeRecord({ keyed: true, receivedAtMs: takenAtMs }),
      makeRecord({ receivedAtMs: takenAtMs }),
      makeRecord({ keyed: true, receivedAtMs: takenAtMs }),
    ]
    // They were stored, though no acknowledgement came; the window that knew their ids is over.
    const ready = await openReadyQueue(nats.url)
    await storeInStream(stored, stored.batchId)
    await storeInStream(gathered, 'aaaaaaaaaaaa-7')
    await ready.queue.stop()
    await forgetIds()
    const doubts = new Map([
      [stored.batchId, stored.batchId],
      [gathered.batchId, 'aaaaaaaaaaaa-7'],
      [lost.batchId, lost.batchId],
    ])
    const before = await openTestSpool(folder, NOBODY)
    await publishAll(before, [stored, gathered, lost])
    await die(before)
    // As the process wrote them that had sent them.
    const path = join(folder, 'journal/000000000001.ndjson')
    const lines = (await readFile(path, 'utf8')).split('\n').filter((line) => line !== '')
    const marked = lines.map((line) =>
      line.replace(/ plain"\}$/, () => ` doubt ${doubts.get(JSON.parse(line).batch_id as string)}"}`),
    )
    await writeFile(path, `${marked.join('\n')}\n`)
    for (const name of ['000000000001.commits', '000000000001.ids']) await rm(join(folder, 'journal', name))
    const after = await openTestSpool(folder, nats.url)
    await untilSpoolIsEmpty(after)
    const counts = countBatches(await readStreamPlainly(nats.url))
    expect(counts.get(stored.batchId)).toBe(1)
    expect(counts.get(gathered.batchId)).toBe(1)
    expect(counts.get(lost.batchId)).toBe(1)
    await after.spool.stop()
  })

  it('sends a key that is used again after five minutes as a batch of its own', async () => {
    const folder = await makeFolder()
    await emptyNats(nats.url)
    const before = await openTestSpool(folder, NOBODY)
    const first = makeRecord({ keyed: true, receivedAtMs: Date.now() - HOUR_MS })
    const again = { ...makeRecord({ receivedAtMs: Date.now() - HOUR_MS / 2, events: 2 }), batchId: first.batchId }
    const text = Buffer.from(again.line)
      .toString()
      .replace(/"batch_id":"[^"]*"/, `"batch_id":"${first.batchId}"`)
    await publishAll(before, [first, { ...again, line: Buffer.from(text), keyed: true }])
    await die(before)
    const after = await openTestSpool(folder, nats.url)
    await untilSpoolIsEmpty(after)
    const ids = (await readStreamPlainly(nats.url)).map(({ id }) => id)
    expect(ids).toEqual([first.batchId, `${first.batchId}.2`])
    await after.spool.stop()
  })
})

describe('what an earlier process has left', () => {
  it('is sent once, though its cursor is older than what it had sent', async () => {
    const folder = await makeFolder()
    await emptyNats(nats.url)
    const before = await openTestSpool(folder, NOBODY)
    const records = recordsOf(100, Date.now() - HOUR_MS)
    await publishAll(before, records)
    await die(before)
    const cursor = await readFile(join(folder, 'cursor.json'), 'utf8')
    // Sent without a word of it in the cursor, as by a process that was killed between the two.
    const sender = await openTestSpool(folder, nats.url, { syncMs: () => 60_000 })
    await untilSpoolIsEmpty(sender)
    await die(sender)
    const reserved = JSON.parse(await readFile(join(folder, 'cursor.json'), 'utf8')) as { reserved: unknown }
    const torn = { ...(JSON.parse(cursor) as object), reserved: reserved.reserved }
    await writeFile(join(folder, 'cursor.json'), JSON.stringify(torn))
    await forgetIds()
    const after = await openTestSpool(folder, nats.url)
    await untilSpoolIsEmpty(after)
    await expectOnce(records)
    await after.spool.stop()
  })

  it('is asked for in NATS where its cursor is damaged', async () => {
    const folder = await makeFolder()
    await emptyNats(nats.url)
    const before = await openTestSpool(folder, NOBODY)
    const records = recordsOf(20)
    await publishAll(before, records)
    await die(before)
    await writeFile(join(folder, 'cursor.json'), '{"version":1,')
    const after = await openTestSpool(folder, nats.url)
    expect(after.notices[0]).toContain('cursor.json of the spool is damaged')
    await untilSpoolIsEmpty(after)
    await expectOnce(records)
    await after.spool.stop()
  })

  it('is counted and named where its journal is damaged, and all else is sent', async () => {
    const folder = await makeFolder()
    await emptyNats(nats.url)
    const before = await openTestSpool(folder, NOBODY)
    const records = recordsOf(20)
    for (const record of records) await publishAll(before, [record])
    await before.spool.stop()
    const path = segmentPath(journalDirectory(folder), 1)
    const bytes = await readFile(path)
    // In the middle of a batch id.
    bytes[bytes.indexOf(records[7].batchId) + 20] ^= 1
    await writeFile(path, bytes)
    const kinds: string[] = []
    const after = await openTestSpool(folder, nats.url, { onDamage: (kind) => kinds.push(kind) })
    await untilSpoolIsEmpty(after)
    expect(kinds).toEqual(['checksum'])
    expect(after.notices.join('\n')).toMatch(
      /the spool is damaged \(sluice spool verify\): damaged bytes in .*1\.ndjson at \d+/,
    )
    await eventually('nothing is left in it', () => after.spool.isEmpty)
    await after.spool.stop()
    const setAside = damagedDirectory(folder)
    expect((await readdir(setAside)).toSorted()).toEqual(
      ['1.commits', '1.ids', '1.ndjson'].map((name) => `00000000000${name}`),
    )
    expect(await readFile(join(setAside, '000000000001.ndjson'))).toEqual(bytes)
    expect(existsSync(path)).toBe(false)
  })

  it('is counted and named at a start where a segment with unsent batches was removed, and not where it was set aside', async () => {
    const folder = await makeFolder()
    const before = await openTestSpool(folder, NOBODY)
    await publishAll(before, recordsOf(5))
    await before.spool.stop()
    const path = segmentPath(journalDirectory(folder), 1)
    await rm(path)
    const opened = async (): Promise<{ kinds: string[]; notices: readonly string[] }> => {
      const kinds: string[] = []
      const { spool, notices } = await openTestSpool(folder, NOBODY, { onDamage: (kind) => kinds.push(kind) })
      await spool.stop()
      return { kinds, notices }
    }
    const after = await opened()
    expect(after.kinds).toEqual(['missing'])
    expect(after.notices.join('\n')).toContain(`${path} was removed`)
    await mkdir(damagedDirectory(folder), { recursive: true })
    await writeFile(segmentPath(damagedDirectory(folder), 1), '')
    expect((await opened()).kinds).toEqual([])
  })

  it('is kept until NATS has synced it, and sent again where NATS has lost it', async () => {
    const folder = await makeFolder()
    await emptyNats(nats.url)
    const before = await openTestSpool(folder, NOBODY)
    const records = recordsOf(40, Date.now() - HOUR_MS)
    await publishAll(before, records)
    await die(before)
    const syncMs = () => 2000
    const after = await openTestSpool(folder, nats.url, { syncMs })
    await untilSpoolIsEmpty(after)
    expect(await readSpoolPlainly(folder)).toHaveLength(40)
    // A power cut takes what was not synced.
    await emptyNats(nats.url)
    await eventually('it is sent again', () => after.notices.some((text) => text.includes('NATS has lost messages')))
    await untilSpoolIsEmpty(after)
    await expectOnce(records)
    await eventually('the disk is empty', async () => (await readSpoolPlainly(folder)).length === 0)
    await after.spool.stop()
  })
})
