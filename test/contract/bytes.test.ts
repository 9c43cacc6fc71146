// The bytes that an app may store in a minute: one event may be as large as a body, and app keys stand in web pages.

import { randomUUID } from 'node:crypto'
import { statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import { event, expectAccepted, expectRefused, get, MAX_BODY_BYTES, post, single } from '../support/client.ts'
import { journalFiles, readJournal } from '../support/journal-files.ts'
import { appRecord, roomInMinute, runCommand, type Service, startService } from '../support/service.ts'

const MIB = 1024 * 1024
/** More than a few batches of half a MiB take. */
const SECONDS = 20
const GZIP = { 'Content-Encoding': 'gzip' }

/** A body of the largest size whose one event is blank for nearly all of it. */
function blanks(appKey: string): string {
  const body = JSON.stringify({ app_key: appKey, events: [event()] })
  return body.replace('"context"', `${' '.repeat(MAX_BODY_BYTES - body.length)}"context"`)
}

function journalBytes({ dataDir }: Service): number {
  return journalFiles(dataDir).reduce((sum, file) => sum + statSync(file).size, 0)
}

async function rowOf({ adminPort }: Service, appId: string): Promise<Record<string, unknown>> {
  const { apps } = (await get(adminPort, `/api/apps?app=${appId}`)).json as { apps: Record<string, unknown>[] }
  return apps[0] ?? {}
}

async function metric({ adminPort }: Service, name: string): Promise<number> {
  const { text } = await get(adminPort, '/metrics')
  return Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1])
}

const APPS = ['keyed', 'plain', 'shown', 'near'].map((id) => appRecord(id, { bytes_per_minute: MIB }))
let service: Service

beforeAll(async () => {
  service = await startService({
    apps: [...APPS, appRecord('two', { plan: '100k' }), appRecord('demo'), appRecord('wide')],
    env: { SLUICE_JOURNAL_MAX_MB: '200' },
  })
})

describe('the bytes of a minute', () => {
  test('refuse the batch that does not fit, for what it is, until the minute turns', async () => {
    await roomInMinute(SECONDS)
    const body = gzipSync(blanks('ak_plain'))
    expectAccepted(await post(service, body, GZIP), 1)
    const refused = await post(service, body, GZIP)
    expectRefused(refused, 429, 'rate_limit_exceeded')
    expect(refused.json).toEqual({
      error: 'rate_limit_exceeded',
      message: expect.stringMatching(/^the app's bytes for this minute are used up/),
      reason: 'bytes',
    })
    expect(String(refused.headers['ratelimit-policy'])).toContain(`"bytes";q=${MIB};qu="content-bytes";w=60`)
    expect(String(refused.headers['ratelimit'])).toMatch(/, "bytes";r=52\d{4};t=\d+/)
    const waitSeconds = Number(refused.headers['retry-after'])
    expect(Math.abs(waitSeconds - (60 - ((Date.now() / 1000) % 60)))).toBeLessThan(3)
    // A smaller one still fits, and its events are all that the minute has counted besides.
    const small = await post(service, single('ak_plain'))
    expectAccepted(small, 1)
    expect(small.headers['x-ratelimit-remaining']).toBe('14998')
  })

  test('a keyed batch beyond them is not remembered, and a replay stays a replay', async () => {
    await roomInMinute(SECONDS)
    const accepted = { ...GZIP, 'Idempotency-Key': randomUUID() }
    const refused = { ...GZIP, 'Idempotency-Key': randomUUID() }
    const body = gzipSync(blanks('ak_keyed'))
    expectAccepted(await post(service, body, accepted), 1)
    expect((await post(service, body, refused)).json['reason']).toBe('bytes')
    expect((await post(service, body, refused)).json['reason']).toBe('bytes')
    const replay = await post(service, body, accepted)
    expectAccepted(replay, 1, true)
    expect(replay.headers['sluice-replay']).toBe('same')
    const { 'Content-Encoding': _, ...plainly } = refused
    expectAccepted(await post(service, single('ak_keyed'), plainly), 1)
    expect(readJournal(service.dataDir).filter(({ app_id: app }) => app === 'keyed')).toHaveLength(2)
  })

  test('are told before they are used up, to pages too, beside the minute alone', async () => {
    await roomInMinute(SECONDS)
    const fitting = blanks('ak_near')
    expect((await post(service, fitting)).headers['ratelimit']).toBeUndefined()
    const rest = fitting.replace(' '.repeat(150_000), '')
    const near = await post(service, rest, { Origin: 'https://page.example' })
    expectAccepted(near, 1)
    expect(String(near.headers['ratelimit'])).toMatch(/^"minute";r=14998;t=\d+, "bytes";r=1[45]\d{4};t=\d+/)
    const told = await post(service, single('ak_near'))
    expect(String(told.headers['ratelimit-policy'])).toMatch(/^"minute";.*"month";.*"bytes";q=1048576;/)
  })

  test('go by the record from the next request on', async () => {
    await roomInMinute(SECONDS)
    const body = gzipSync(blanks('ak_wide'))
    expectAccepted(await post(service, body, GZIP), 1)
    const put = await runCommand(['apps', 'set', 'wide', '--bytes-per-minute', '600000'], {
      SLUICE_DATA_DIR: service.dataDir,
    })
    expect(put).toMatchObject({ code: 0, output: expect.stringContaining('bytes per minute none → 600,000') })
    await expect.poll(async () => (await post(service, body, GZIP)).json['reason']).toBe('bytes')
  })
})

test('an app stores no more than its minute allows, whatever it sends, and others are served', async () => {
  await roomInMinute(SECONDS)
  const before = journalBytes(service)
  const storedBefore = await metric(service, 'sluice_stored_bytes_total')
  const body = gzipSync(blanks('ak_two'))
  const statuses: number[] = []
  for (let sent = 0; sent < 100; sent++) {
    const { status } = await post(service, body, GZIP)
    statuses.push(status)
    expectAccepted(await post(service, single('ak_demo')), 1)
  }
  expect(statuses.filter((status) => status === 202)).toHaveLength(3)
  expect(statuses.filter((status) => status === 429)).toHaveLength(97)
  const grown = journalBytes(service) - before
  expect(grown).toBeLessThan(2 * MIB)
  const stored = (await metric(service, 'sluice_stored_bytes_total')) - storedBefore
  // Beside the lines a commit may fill its blocks.
  expect(grown - stored).toBeGreaterThanOrEqual(0)
  expect(stored).toBeGreaterThan(3 * MAX_BODY_BYTES - 1000)
})

test('a journal that is 80% full holds those who filled it to a quarter, and names them', async () => {
  await roomInMinute(SECONDS)
  const filling = await startService({
    apps: [appRecord('flood', { bytes_per_minute: 40 * MIB }), appRecord('honest')],
    env: { SLUICE_JOURNAL_MAX_MB: '20' },
  })
  expectAccepted(await post(filling, single('ak_honest')), 1)
  const body = gzipSync(blanks('ak_flood'))
  let stored = 0
  let last = await post(filling, body, GZIP)
  for (; last.status === 202; stored += MAX_BODY_BYTES) last = await post(filling, body, GZIP)
  expect(last.json['reason']).toBe('bytes')
  expect(String(last.headers['ratelimit-policy'])).toContain(`"bytes";q=${10 * MIB};`)
  expect(stored / MIB).toBeGreaterThan(15)
  expect(stored / MIB).toBeLessThan(17)
  await expect
    .poll(() => filling.output())
    .toMatch(
      /the journal is 80% full .*; most of the last hour on this node stored flood 1\d(?:\.\d)? MiB, honest \d+ B, and are held to a quarter of their bytes, at least 1 MiB a minute/,
    )
  expectAccepted(await post(filling, single('ak_honest')), 1)
})

describe('what an app has stored', () => {
  test('stands beside its events, and what was refused for it is named so', async () => {
    await roomInMinute(SECONDS)
    const body = gzipSync(blanks('ak_shown'))
    expectAccepted(await post(service, body, GZIP), 1)
    expectRefused(await post(service, body, GZIP), 429, 'rate_limit_exceeded')
    const { stored_bytes: bytes } = await rowOf(service, 'shown')
    const { last_hour: lastHour } = bytes as { last_hour: number }
    expect(bytes).toEqual({ last_hour: lastHour, today: lastHour, highest_minute_today: lastHour })
    expect(lastHour).toBeGreaterThan(MAX_BODY_BYTES)
    expect(lastHour).toBeLessThan(MAX_BODY_BYTES + 200)
    const env = { SLUICE_DATA_DIR: service.dataDir }
    const usage = await runCommand(['usage', '--app', 'shown'], env)
    expect(usage.stdout).toMatch(/^bytes in the last hour +512 KiB$/m)
    expect(usage.stdout).toMatch(/^bytes today +512 KiB, up to 512 KiB a minute$/m)
    const { refusals, groups } = (await get(service.adminPort, '/api/refusals?app=shown')).json
    const named = { code: 'rate_limit_exceeded', reason: 'bytes' }
    expect([refusals, groups]).toMatchObject([[named], [{ ...named, count: 1 }]])
    const tail = await runCommand(['tail', '--refused', '--app', 'shown', '--from-start', '--no-follow'], env)
    expect(JSON.parse(tail.stdout)).toMatchObject(named)
  })

  test('is told by explain, which knows what of this minute is left', async () => {
    await roomInMinute(SECONDS)
    const body = gzipSync(blanks('ak_shown'))
    await post(service, body, GZIP)
    const env = { SLUICE_DATA_DIR: service.dataDir }
    const file = `${service.dataDir}/body.json`
    await writeFile(file, blanks('ak_shown'))
    const { code, stdout } = await runCommand(['explain', '--json', file], env)
    const explained = JSON.parse(stdout)
    expect([code, explained]).toMatchObject([
      1,
      { status: 429, outcome: 'rate_limit_exceeded', reason: 'bytes', limits: { bytes: { limit: MIB } } },
    ])
    const shown = await runCommand(['explain', file], env)
    expect(shown.stdout).toMatch(/^bytes +51\d KiB left of 1 MiB this minute on the node that answered$/m)
  })
})
