// The Parquet example: its files, read back with DuckDB, have each event once, however often it is killed.

import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  ask,
  type Example,
  endInOrder,
  eventText,
  killAndRestart,
  publishTexts,
  recordText,
  startExample,
} from '../support/examples.ts'
import { addStream } from '../support/jetstream.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { eventually, makeFolder } from '../support/service.ts'

const ROUNDS = 15
const RECORDS = 60

let folder: string
let nats: NatsServer
let example: Example | undefined

beforeEach(async () => {
  folder = await makeFolder()
  nats = await startNats()
  await addStream(nats.url)
})
afterEach(async () => {
  await example?.kill()
  await nats.stop()
})

/** None, too, while the example has not made its folder yet. */
function files(): string[] {
  const path = join(folder, 'out', 'files')
  if (!existsSync(path)) return []
  return readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((name) => name.includes('p0'))
}

async function stored(columns: string) {
  return await ask(`SELECT ${columns} FROM read_parquet('${folder}/out/files/*/*.parquet', filename = true)`)
}

describe('the Parquet example', () => {
  it('writes each event once, in files named by partition and first sequence, however often it is killed', async () => {
    example = startExample({
      name: 'parquet',
      folder,
      args: ['--rows', '50', '--seconds', '1'],
      env: { NATS_URL: nats.url },
    })
    const expected: string[] = []
    let last = ''
    await killAndRestart(example, ROUNDS, async (round) => {
      const texts = Array.from({ length: RECORDS }, (_, index) => {
        const name = `event-${round}-${index}`
        expected.push(name, `${name}-b`)
        const receivedAt = new Date(Date.now() - (index % 2) * 86_400_000).toISOString()
        return recordText({ receivedAt, events: [eventText(name, `,"event_id":"${name}"`), eventText(`${name}-b`)] })
      })
      const sameEvent = recordText({ events: [eventText('again', `,"event_id":"event-${round}-0"`)] })
      await publishTexts(nats.url, [...texts, sameEvent, last === '' ? sameEvent : last, texts[0]], round % 3)
      last = texts[1]
    })
    await eventually(
      'all is in files',
      async () =>
        files().length > 0 && Number((await stored('count(*)::INTEGER AS rows'))[0]['rows']) >= expected.length,
      30_000,
    )
    await endInOrder(example)
    const rows = await stored('name, event, partition, sequence::DOUBLE AS sequence, filename')
    expect(rows.map(({ name }) => String(name)).toSorted()).toEqual(expected.toSorted())
    expect(files().filter((name) => name.endsWith('.tmp'))).toEqual([])
    const firsts = await ask(`SELECT filename, min(sequence)::VARCHAR AS first, any_value(partition) AS partition,
      count(DISTINCT (partition, received_at::DATE, date))::INTEGER AS kinds
      FROM read_parquet('${folder}/out/files/*/*.parquet', filename = true, hive_partitioning = true) GROUP BY filename`)
    for (const { filename, first, partition, kinds } of firsts) {
      expect(filename).toMatch(new RegExp(`/p0${String(partition)}-0*${String(first)}-[0-9a-f]{8}\\.parquet$`))
      expect(kinds).toBe(1)
    }
    expect(firsts.length).toBeGreaterThan(ROUNDS / 2)
  })
})
