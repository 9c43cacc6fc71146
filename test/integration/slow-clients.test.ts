// Slow uploads: hundreds of them block nobody, and those that finish in time are served too.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { batch, expectAccepted, expectSound, post, single } from '../support/client.ts'
import { readJournal } from '../support/journal-files.ts'
import { head, openRaw, type RawConnection } from '../support/raw-http.ts'
import { appRecord, makeFolder, removeFolder, type Service, sleep, startService } from '../support/service.ts'

const SLOW = 600
const SECONDS = 6

let folder: string
let service: Service

beforeAll(async () => {
  folder = await makeFolder()
  service = await startService({ dataDir: folder, apps: [appRecord('plain'), appRecord('slow')] })
})

afterAll(async () => {
  await service?.kill()
  await removeFolder(folder)
})

test(`while ${SLOW} clients upload slowly, every ordinary request is served, and the slow ones are answered too`, async () => {
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
    await sleep(50)
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
  const records = readJournal(folder)
  expect(records.filter((record) => record.app_id === 'plain').length).toBe(served)
  expect(records.filter((record) => record.app_id === 'slow').length).toBe(SLOW)
})

test('slow clients that give up leave no memory in use', async () => {
  const stored = readJournal(folder).length
  const slow = await Promise.all(Array.from({ length: SLOW }, () => openRaw(service.port)))
  for (const raw of slow) raw.write(`${head(['Content-Type: application/json', 'Content-Length: 100000'])}{"app_key":`)
  await sleep(300)
  for (const [index, raw] of slow.entries()) {
    if (index % 2 === 0) raw.close()
    else raw.socket.resetAndDestroy()
  }
  for (let i = 0; i < 20; i++) expectAccepted(await post(service, single('ak_plain')), 1)
  expect(readJournal(folder).length).toBe(stored + 20)
})
