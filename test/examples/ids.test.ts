// The code of docs/ids.md: a backend's ids are the same for a user within their period and no longer, and the page's program
// sends an event with them that is stored; and its queries count users by them.

import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { idsOf } from '../../examples/shared/ids.js'
import { parseRecord } from '../../examples/shared/record.js'
import { openStore } from '../../examples/shared/store.js'
import { recordText } from '../support/examples.ts'
import { readJournal } from '../support/journal-files.ts'
import { codeBlocks, codeWith, runFile } from '../support/page-code.ts'
import { appRecord, makeFolder, startService } from '../support/service.ts'

const PAGE = 'docs/ids.md'
const IDS = resolve(import.meta.dirname, '../../examples/shared/ids.js')
const SECRET = '5'.repeat(64)

let folder: string

beforeEach(async () => {
  folder = await makeFolder()
})

describe('the ids of a backend', () => {
  const of = (time: string, user = 'user-41', secret = SECRET) => Object.values(idsOf(secret, user, new Date(time)))
  /** Which of the three are the same. */
  const shared = (left: string[], right: string[]) => left.map((id, index) => id === right[index])

  it('are the code that the page shows', () => {
    expect(codeBlocks(PAGE, 'js')[0]).toBe(readFileSync(IDS, 'utf8'))
  })

  it('are replaced with the day, the month and the 90 days of UTC, each with its own', () => {
    const noon = of('2026-11-23T12:00:00Z')
    expect(shared(noon, of('2026-11-23T23:59:59.999Z'))).toEqual([true, true, true])
    expect(shared(noon, of('2026-11-24T00:00:00Z'))).toEqual([false, true, true])
    expect(shared(noon, of('2026-12-01T00:00:00Z'))).toEqual([false, false, true])
    const days = Array.from({ length: 180 }, (_, day) => of(new Date(Date.UTC(2026, 0, 1 + day)).toISOString())[2])
    expect(new Set(days).size).toBe(3)
  })

  it('are those of one user under one secret, differ from one another, and fit the schema', () => {
    const ids = of('2026-11-23T12:00:00Z')
    expect(shared(ids, of('2026-11-23T12:00:00Z', 'user-42'))).toEqual([false, false, false])
    expect(shared(ids, of('2026-11-23T12:00:00Z', 'user-41', '6'.repeat(64)))).toEqual([false, false, false])
    expect(new Set(ids).size).toBe(3)
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{64}$/)
  })
})

it('the program of the page sends an event with these ids, and it is stored', async () => {
  const service = await startService({ dataDir: folder, apps: [appRecord('shop')] })
  try {
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
    writeFileSync(join(folder, 'send.js'), codeWith(PAGE, 'js', 'fetch('))
    copyFileSync(IDS, join(folder, 'ids.js'))
    const before = new Date()
    const output = await runFile(join(folder, 'send.js'), {
      IDS_SECRET: SECRET,
      EVENTS_URL: `http://127.0.0.1:${service.port}`,
      APP_KEY: 'ak_shop',
    })
    expect(output).toBe('202 {"status":"accepted","events":1}\n')
    const [event] = readJournal(folder).flatMap((record) => record.events)
    const happenedAt = new Date(String(event['timestamp']))
    expect(happenedAt.getTime()).toBeGreaterThanOrEqual(before.getTime())
    expect(event).toMatchObject({ context: { os: 'server' }, ...idsOf(SECRET, 'user-41', happenedAt) })
  } finally {
    await service.stop()
  }
})

describe('the queries of the page', () => {
  /** Users that came, by day. */
  const CAME = {
    '2026-11-02': ['ann', 'ben'],
    '2026-11-03': ['ann'],
    '2026-11-10': ['ann', 'cem'],
    '2026-12-01': ['ben'],
  }

  function recordOf(day: string, user: string): Parameters<Awaited<ReturnType<typeof openStore>>['write']>[0][number] {
    const timestamp = `${day}T10:00:00Z`
    const event = JSON.stringify({ ...idsOf(SECRET, user, new Date(timestamp)), timestamp })
    const parsed = parseRecord({ partition: '3', sequence: 1n, text: recordText({ events: [event] }) })
    if (!('record' in parsed)) throw new Error(parsed.problem)
    return parsed.record
  }

  /** DuckDB gives dates as such, and counts as bigint. */
  const plain = (value: unknown) =>
    value instanceof Date ? value.toISOString().slice(0, 10) : typeof value === 'bigint' ? Number(value) : value

  it('count users of a day, of a month, and those who came again', async () => {
    const store = await openStore(join(folder, 'out'))
    const records = Object.entries(CAME).flatMap(([day, users]) => users.map((user) => recordOf(day, user)))
    await store.write(records, { source: 'test', sequence: 1n, mark: '' })
    const [byDay, byMonth] = codeWith(PAGE, 'sql', "'hashed_daily_id'").split(';')
    const rows = async (sql: string) => (await store.query(sql)).map((row) => Object.values(row).map(plain))
    expect(await rows(byDay)).toEqual([
      ['2026-11-02', 2],
      ['2026-11-03', 1],
      ['2026-11-10', 2],
      ['2026-12-01', 1],
    ])
    expect(await rows(byMonth)).toEqual([
      ['2026-11', 3],
      ['2026-12', 1],
    ])
    expect(await rows(codeWith(PAGE, 'sql', 'came_again'))).toEqual([
      ['2026-11-02', 2, 1],
      ['2026-11-09', 2, 0],
      ['2026-11-30', 1, 0],
    ])
    store.close()
  })
})
