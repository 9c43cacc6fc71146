// More connections than the process may have open files: those that are there are served, new ones are closed and
// counted, and neither the journal nor the admin port goes without a descriptor.

import { test as base, expect } from 'vitest'
import { batch, expectAccepted, get } from '../support/client.ts'
import { aService } from '../support/fixture.ts'
import { expectUnharmed, readPage } from '../support/hostile.ts'
import { journalFiles, readJournal } from '../support/journal-files.ts'
import { openRaw, type RawConnection, rawPost } from '../support/raw-http.ts'
import { appRecord, eventually, type Service } from '../support/service.ts'
import { storedFaults } from '../support/stored-once.js'

const OPEN_FILES = 256
const COMERS = 400
/** Of about 450 KB each: more than three segments of the journal hold, of which each is an eighth of it. */
const LARGE_BATCHES = 60
const JOURNAL_MAX_MB = 64

const limits = { events_per_minute: 1_000_000_000, events_per_month: 1_000_000_000_000 }
const test = base.extend(
  'service',
  { scope: 'file' },
  aService({
    apps: [appRecord('honest', limits)],
    openFiles: OPEN_FILES,
    env: { SLUICE_JOURNAL_MAX_MB: String(JOURNAL_MAX_MB) },
  }),
)

test('with 256 open files and 400 clients, the honest one is served, the journal rolls on, and the admin port answers', async ({
  service,
}) => {
  const honest = await openRaw(service.port)
  const raws: RawConnection[] = [honest]
  for (let i = 0; i < COMERS; i++) raws.push(await openRaw(service.port))
  const most = (await readPage(service))['sluice_connections_max']
  expect(most).toBeLessThan(OPEN_FILES)
  const refused = 'sluice_connections_closed_total{reason="limit"}'
  await eventually('the others are closed', async () => (await readPage(service))[refused] === COMERS + 1 - most)
  expect((await readPage(service))['sluice_connections']).toBe(most)

  const body = batch('ak_honest', 100, { padding: 'p'.repeat(420_000) })
  const accepted: string[] = []
  for (let i = 0; i < LARGE_BATCHES; i++) {
    honest.write(rawPost(body))
    const answer = await honest.readAnswer()
    if (answer === null) expect.fail('the honest client was closed')
    accepted.push(expectAccepted(answer, 100))
  }
  expect(journalFiles(service.dataDir).length, 'segments').toBeGreaterThan(3)
  expect((await get(service.adminPort, '/livez')).status).toBe(200)
  expect((await get(service.adminPort, '/readyz')).status).toBe(200)
  const records = readJournal(service.dataDir)
  expect(records.length).toBe(LARGE_BATCHES)
  expect(storedFaults(records, accepted)).toEqual([])

  for (const raw of raws) raw.close()
  await expectUnharmed(service)
})

test('connections to the admin port are bounded too, and cost the public port nothing', async ({ service }) => {
  const raws = await Promise.all(Array.from({ length: COMERS }, () => openRaw(service.adminPort)))
  await expectPublicServes(service)
  for (const raw of raws) raw.close()
  await expectUnharmed(service)
})

async function expectPublicServes(service: Service): Promise<void> {
  const honest = await openRaw(service.port)
  for (let i = 0; i < 10; i++) {
    honest.write(rawPost(batch('ak_honest')))
    const answer = await honest.readAnswer()
    if (answer === null) expect.fail('no answer')
    expectAccepted(answer, 1)
  }
  honest.close()
}
