// What the Parquet example says and does as people run it first: without options, over a journal, ended by Ctrl-C.

import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { ask, type Example, eventText, expectSaid, recordText, startExample } from '../support/examples.ts'
import { makeFolder } from '../support/service.ts'

const DAY_MS = 86_400_000

let folder: string
let example: Example | undefined

beforeEach(async () => {
  folder = await makeFolder()
})
afterEach(() => example?.kill())

function files(): string[] {
  const names = readdirSync(join(folder, 'out/files'), { recursive: true, encoding: 'utf8' })
  return names.filter((name) => name.includes('p')).toSorted()
}

it.each(['SIGINT', 'SIGTERM'] as const)(
  'says when its first file comes, and on %s writes what has come',
  async (signal) => {
    const records = [0, DAY_MS, 0].map((ageMs, index) => {
      const receivedAt = new Date(Date.now() - ageMs).toISOString()
      return recordText({ receivedAt, events: [eventText(`a ${index}`), eventText(`b ${index}`)] })
    })
    mkdirSync(join(folder, 'data/journal'), { recursive: true })
    writeFileSync(join(folder, 'data/journal/000000000001.ndjson'), `${records.join('\n')}\n`)
    example = startExample({ name: 'parquet', folder, env: { SLUICE_DATA_DIR: join(folder, 'data') } })
    await expectSaid(example, 'first file in 60 s or at 100,000 rows')
    await expectSaid(example, 'the first events have come')
    expect(await example.stop(signal), example.output()).toBe(0)
    const written = files()
    const rows = await ask(`SELECT name FROM read_parquet('${folder}/out/files/*/*.parquet')`)
    expect(rows.map(({ name }) => String(name)).toSorted()).toEqual(['a 0', 'a 1', 'a 2', 'b 0', 'b 1', 'b 2'])
    expect(written).toEqual([expect.stringMatching(/\.parquet$/), expect.stringMatching(/\.parquet$/)])

    // Nothing is left to write.
    example.start()
    await expectSaid(example, 'reading')
    expect(await example.stop(signal), example.output()).toBe(0)
    expect(files()).toEqual(written)
  },
)
