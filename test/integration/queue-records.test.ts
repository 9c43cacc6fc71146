// What the load's checks read of the queue, through `sluice tail`.

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readRecords } from '../../load/run/queue-records.js'
import { journalRecords } from '../../load/shared/journal-records.js'
import { makeFolder } from '../support/service.ts'

it('a record is one line, whatever line ends of Unicode its events hold', async () => {
  const folder = await makeFolder()
  await mkdir(join(folder, 'journal'))
  const names = ['before\u2028after', 'before\u2029after', 'before\u0085after', 'plain']
  const lines = names.map((name, at) =>
    JSON.stringify({
      v: 1,
      batch_id: `0192f5a0-0000-7000-8000-00000000000${at}`,
      app_id: 'shop',
      received_at: new Date().toISOString(),
      events: [{ name }],
    }),
  )
  await writeFile(join(folder, 'journal', '000000000001.ndjson'), `${lines.join('\n')}\n`)
  const eventsOf = async (records: AsyncIterable<{ readonly events: readonly object[] }>) => {
    const found: unknown[] = []
    for await (const { events } of records) found.push(...events)
    return found
  }
  expect(await eventsOf(readRecords({ SLUICE_DATA_DIR: folder }))).toEqual(names.map((name) => ({ name })))
  expect(await eventsOf(journalRecords(join(folder, 'journal')))).toEqual(names.map((name) => ({ name })))
})
