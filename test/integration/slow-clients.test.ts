// Slow uploads: hundreds of them block nobody, and those that finish in time are served too.

import { test as base, expect } from 'vitest'
import { batch, expectAccepted, expectSound, post, single } from '../support/client.ts'
import { aService } from '../support/fixture.ts'
import { readPage } from '../support/hostile.ts'
import { readJournal } from '../support/journal-files.ts'
import { head, openRaw, type RawConnection } from '../support/raw-http.ts'
import { appRecord, eventually, sleep } from '../support/service.ts'

const SLOW = 600
const SECONDS = 6
/** The pace is what is tried here. */
const PIECE_PAUSE_MS = 50

const test = base.extend('service', { scope: 'file' }, aService({ apps: [appRecord('plain'), appRecord('slow')] }))

test(`while ${SLOW} clients upload slowly, every ordinary request is served, and the slow ones are answered too`, async ({
  service,
}) => {
  const body = batch('ak_slow', 2)
  const slow: RawConnection[] = await Promise.all(Array.from({ length: SLOW }, () => openRaw(service.port)))
  for (const raw of slow) raw.write(head(['Content-Type: application/json', `Content-Length: ${body.length}`]))
  const step = Math.floor(body.length / (SECONDS * 10 + 1))
  let at = 0
  let served = 0
  for (let tick = 0; tick < SECONDS * 10; tick++) {
    for (const raw of slow) raw.write(body.slice(at, at + step))
    at += step
    const answers = await Promise.all(Array.from({ length: 10 }, () => post(service, single('ak_plain'))))
    for (const answer of answers) expectAccepted(answer, 1)
    served += answers.length
    await sleep(PIECE_PAUSE_MS)
  }
  for (const raw of slow) raw.write(body.slice(at))
  let accepted = 0
  for (const raw of slow) {
    const answer = await raw.readAnswer()
    expect(answer, 'every slow client is answered').not.toBeNull()
    if (answer) expectSound(answer)
    if (answer?.status === 202) accepted++
    raw.close()
  }
  expect(accepted).toBe(SLOW)
  const records = readJournal(service.dataDir)
  expect(records.filter((record) => record.app_id === 'plain').length).toBe(served)
  expect(records.filter((record) => record.app_id === 'slow').length).toBe(SLOW)
})

test('slow clients that give up leave no memory in use', async ({ service }) => {
  const stored = readJournal(service.dataDir).length
  const slow = await Promise.all(Array.from({ length: SLOW }, () => openRaw(service.port)))
  for (const raw of slow) raw.write(`${head(['Content-Type: application/json', 'Content-Length: 100000'])}{"app_key":`)
  await eventually('all heads are read', async () => (await readPage(service))['sluice_requests_in_flight'] === SLOW)
  for (const [index, raw] of slow.entries()) {
    if (index % 2 === 0) raw.close()
    else raw.socket.resetAndDestroy()
  }
  for (let i = 0; i < 20; i++) expectAccepted(await post(service, single('ak_plain')), 1)
  expect(readJournal(service.dataDir).length).toBe(stored + 20)
})
