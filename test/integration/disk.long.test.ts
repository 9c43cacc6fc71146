// The disk: full, at the journal's maximum size, and with a torn last line after a crash.

import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { batch, bodyOfSize, expectAccepted, expectRefused, figures, post, single } from '../support/client.ts'
import { journalFiles, readJournal } from '../support/journal-files.ts'
import {
  appRecord,
  eventually,
  makeFolder,
  roomInMinute,
  runCommand,
  type Service,
  startService,
  writeApps,
} from '../support/service.ts'
import { mountSmall, takeAllRoom } from '../support/small-disk.ts'
import { storedFaults } from '../support/stored-once.js'

/** What the log says of how full the journal is, in order. */
function fillingLines(of: Service): string[] {
  const entries = of
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{') && line.includes('"the journal '))
  return entries.map((line) => (JSON.parse(line) as { msg: string }).msg)
}

const PER_MINUTE = 1_000_000
const APPS = [appRecord('plain', { events_per_minute: PER_MINUTE })]

let folder: string
let service: Service | null = null

beforeEach(async () => {
  folder = await makeFolder()
})

afterEach(async () => {
  await service?.kill()
  service = null
})

/** Sends large bodies until one is refused; returns the accepted batches. */
async function fill(to: Service, bodyBytes: number, most: number): Promise<string[]> {
  const accepted: string[] = []
  const body = bodyOfSize('ak_plain', bodyBytes)
  for (let i = 0; i < most; i++) {
    const answer = await post(to, body)
    if (answer.status !== 202) {
      expectRefused(answer, 503, 'service_overloaded')
      expect(Number(answer.headers['retry-after'])).toBeLessThanOrEqual(5)
      return accepted
    }
    accepted.push(expectAccepted(answer, 1))
  }
  throw new Error(`${most} bodies of ${bodyBytes} bytes were accepted, and none refused`)
}

function expectStoredOnce(dataDir: string, batchIds: readonly string[]): void {
  expect(storedFaults(readJournal(dataDir), batchIds)).toEqual([])
}

describe('a file system of its own', () => {
  test('that is full leads to 503, loses nothing, and recovers as soon as there is room', async (context) => {
    const place = mountSmall('48m', context.skip)
    const dataDir = join(place, 'data')
    await mkdir(dataDir)
    service = await startService({ dataDir, apps: APPS })
    const first = expectAccepted(await post(service, single('ak_plain')), 1)
    takeAllRoom(join(place, 'filler'))
    const accepted = [first, ...(await fill(service, 100_000, 2000))]
    const key = { 'Idempotency-Key': randomUUID() }
    expectRefused(await post(service, bodyOfSize('ak_plain', 200_000), key), 503, 'service_overloaded')
    expectStoredOnce(dataDir, accepted)
    const running = service
    await eventually('the log says that the disk is full', () => fillingLines(running).length > 0)
    expect(fillingLines(running)).toEqual([
      expect.stringMatching(
        /^the journal is full \(.*answering 503 until there is room: its disk has .* free: make room there or lower/,
      ),
    ])
    expect(running.output()).not.toContain('refuses records')
    await rm(join(place, 'filler'))
    await eventually('the log says that there is room', () => fillingLines(running).length > 1)
    expect(fillingLines(running)[1]).toMatch(/^the journal has room again /)
    await eventually('bodies are taken again', async () => {
      const answer = await post(running, single('ak_plain'))
      if (answer.status === 202) accepted.push(String(answer.headers['x-batch-id']))
      return answer.status === 202
    })
    accepted.push(expectAccepted(await post(service, bodyOfSize('ak_plain', 200_000), key), 1))
    for (let i = 0; i < 10; i++) accepted.push(expectAccepted(await post(service, single('ak_plain')), 1))
    expectStoredOnce(dataDir, accepted)
    await service.kill()
    service = await startService({ dataDir })
    expectStoredOnce(dataDir, accepted)
    expectAccepted(await post(service, single('ak_plain'), key), 1, true)
    expect((await service.stop()).code).toBe(0)
  })

  test('that is read-only is a clear error at start', async (context) => {
    const place = mountSmall('48m', context.skip)
    const dataDir = join(place, 'data')
    await mkdir(dataDir)
    await writeApps(join(dataDir, 'apps.json'), APPS)
    execFileSync('mount', ['-o', 'remount,ro', place])
    const env = { PORT: '0', SLUICE_ADMIN_PORT: '0', SLUICE_DATA_DIR: dataDir }
    const result = await runCommand(['serve'], env, folder)
    expect(result.code).toBe(1)
    expect(result.output).toContain(dataDir)
    expect(result.output).not.toMatch(/\n\s+at .*\.[jt]s:\d+/)
  })
})

test('at its maximum size the journal refuses records, and reports it', async () => {
  service = await startService({ dataDir: folder, apps: APPS, env: { SLUICE_JOURNAL_MAX_MB: '2' } })
  await roomInMinute(8)
  const key = { 'Idempotency-Key': randomUUID() }
  const accepted = [expectAccepted(await post(service, batch('ak_plain', 3), key), 3)]
  accepted.push(...(await fill(service, 100_000, 100)))
  const left = figures(await post(service, single('ak_plain', { type: 'x' }))).remaining
  expect(left, 'a 503 costs nothing').toBe(PER_MINUTE - 3 - (accepted.length - 1))
  expect(accepted.length).toBeGreaterThan(5)
  const bytes = journalFiles(folder).reduce((sum, file) => sum + statSync(file).size, 0)
  expect(bytes).toBeLessThanOrEqual(2 * 1024 * 1024)
  const advice = 'raise SLUICE_JOURNAL_MAX_MB or lower SLUICE_JOURNAL_KEEP_HOURS'
  const running = service
  await eventually('the log says that it is full', () => running.output().includes('the journal is full'))
  const date = '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\dZ'
  const nearly = [80, 90, 95].map((percent) =>
    expect.stringMatching(
      `^the journal is ${percent}% full \\((1\\.\\d|2) MiB of 2 MiB\\) and will be full on ${date} at the rate of the last \\d+ s; when full, requests get 503: ${advice}; most of the last hour on this node stored plain 1\\.\\d MiB, and is held to a quarter of its bytes, at least 1 MiB a minute$`,
    ),
  )
  expect(fillingLines(service)).toEqual([
    ...nearly,
    expect.stringMatching(
      `^the journal is full \\(.* of 2 MiB\\): answering 503 until there is room: ${advice}; most of the last hour on this node stored plain .*$`,
    ),
  ])
  expectRefused(await post(service, bodyOfSize('ak_plain', 400_000)), 503, 'service_overloaded')
  expectAccepted(await post(service, single('ak_plain'), key), 3, true)
  expectStoredOnce(folder, accepted)
  await service.kill()
  service = await startService({ dataDir: folder, env: { SLUICE_JOURNAL_MAX_MB: '20' } })
  accepted.push(expectAccepted(await post(service, bodyOfSize('ak_plain', 400_000)), 1))
  expectStoredOnce(folder, accepted)
})

describe('a torn last line', () => {
  const torn: Record<string, string> = {
    'half a record': '{"v":1,"batch_id":"0190d8a2-7d5e-7c3f-8a1b-0123456789ab","app_id":"plain","received_at":"20',
    'one letter': '{',
    'a record without its newline': '',
    garbage: '\u0001\u0002garbage',
  }
  for (const [claim, text] of Object.entries(torn)) {
    test(`is truncated at the next start: ${claim}`, async () => {
      service = await startService({ dataDir: folder, apps: APPS })
      const key = { 'Idempotency-Key': randomUUID() }
      const accepted = [
        expectAccepted(await post(service, batch('ak_plain', 3)), 3),
        expectAccepted(await post(service, batch('ak_plain', 4), key), 4),
      ]
      await service.kill()
      const file = journalFiles(folder).at(-1) ?? ''
      const bytes = readFileSync(file)
      const end = bytes.lastIndexOf(10) + 1
      const tail =
        text === '' ? bytes.subarray(0, end - 1).subarray(bytes.lastIndexOf(10, end - 2) + 1) : Buffer.from(text)
      writeFileSync(file, Buffer.concat([bytes.subarray(0, end), tail, bytes.subarray(end + tail.length)]))
      service = await startService({ dataDir: folder })
      expectStoredOnce(folder, accepted)
      accepted.push(expectAccepted(await post(service, single('ak_plain')), 1))
      expectAccepted(await post(service, batch('ak_plain', 4), key), 4, true)
      expectStoredOnce(folder, accepted)
      expect(readJournal(folder).length).toBe(3)
    })
  }
})
