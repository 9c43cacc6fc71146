import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { BucketApps } from '../../../../src/apps/bucket/bucket-apps.ts'
import { KeptApps } from '../../../../src/apps/bucket/kept-apps.ts'
import { makeFolder } from '../../../support/service.ts'
import { ManualTimers } from '../../../support/timers.ts'
import { anApp } from '../apps.ts'

const APPS = Array.from({ length: 1201 }, (_, at) => anApp({ appId: `app-${at}`, appKey: `ak_${at}` }))

async function openKept(path: string, isLoaded: boolean, notices: string[] = []) {
  const timers = new ManualTimers()
  const records = { isLoaded, changes: 1, apps: APPS }
  const bucket = {
    get isLoaded() {
      return records.isLoaded
    },
    get changes() {
      return records.changes
    },
    all: () => records.apps,
    findById: () => 'unavailable',
    stop: async () => {},
  } as unknown as BucketApps
  const kept = await KeptApps.open({ bucket, path, timers, onNotice: (notice) => notices.push(notice) })
  return { kept, timers, notices, records }
}

/** Counts the writes; the first ones take so long. */
function blockedWrites({ records, timers }: Awaited<ReturnType<typeof openKept>>, blocksMs: readonly number[]) {
  const done = { writes: 0 }
  Object.defineProperty(records, 'apps', {
    get: () => {
      timers.block(blocksMs[done.writes] ?? 0)
      done.writes += 1
      return APPS
    },
  })
  return done
}

test('records are kept whole, and a file that lacks some is not used', async () => {
  const path = join(await makeFolder(), 'apps.ndjson')
  const { kept, timers } = await openKept(path, true)
  await timers.pass(5000)
  await kept.stop()
  const text = readFileSync(path, 'utf8')

  const whole = await openKept(path, false)
  expect([...whole.kept.all()]).toEqual(APPS)
  await whole.kept.stop()

  for (const cut of [text.slice(0, text.lastIndexOf('\n', text.length - 2) + 1), text.slice(0, -1), `${text}\n`]) {
    writeFileSync(path, cut)
    const { kept: none, notices } = await openKept(path, false)
    expect(notices).toEqual([expect.stringMatching(/cannot be used: it is not whole; those of NATS are waited for/)])
    await none.stop()
  }
})

test('records that were read are kept within a second, and what changed last is kept at the end', async () => {
  const path = join(await makeFolder(), 'apps.ndjson')
  const { kept, timers, records } = await openKept(path, false)
  await timers.pass(1000)
  expect(existsSync(path)).toBe(false)
  records.isLoaded = true
  await timers.pass(1000)
  await expect.poll(() => existsSync(path)).toBe(true)
  Object.assign(records, { changes: 2, apps: APPS.slice(0, 3) })
  await kept.stop()
  const again = await openKept(path, false)
  expect([...again.kept.all()]).toEqual(APPS.slice(0, 3))
  await again.kept.stop()
})

test('records that change all the time are not written all the time', async () => {
  const path = join(await makeFolder(), 'apps.ndjson')
  const opened = await openKept(path, true)
  const { kept, timers, records } = opened
  const done = blockedWrites(opened, [30, 30])
  await timers.pass(1000)
  await expect.poll(() => existsSync(path)).toBe(true)
  records.changes += 1
  // That pause is 3 s.
  await timers.pass(2000)
  records.changes += 1
  await kept.stop()
  expect(done.writes).toBe(2)
})

test('a disk that stood still for long puts the next write off by a minute at most', async () => {
  const path = join(await makeFolder(), 'apps.ndjson')
  const opened = await openKept(path, true)
  const { kept, timers, records } = opened
  const done = blockedWrites(opened, [20_000])
  await timers.pass(1000)
  await expect.poll(() => existsSync(path)).toBe(true)
  records.changes += 1
  await timers.pass(59_000)
  expect(done.writes).toBe(1)
  await timers.pass(3000)
  await expect.poll(() => done.writes).toBe(2)
  await kept.stop()
})

test('none at all are as good as no file: each key may have been made since', async () => {
  const path = join(await makeFolder(), 'apps.ndjson')
  const { kept, records } = await openKept(path, true)
  records.apps = []
  await kept.stop()
  const { kept: again } = await openKept(path, false)
  expect(again.isLoaded).toBe(false)
  await again.stop()
})

test('a pipe in the place of the kept records makes no start wait for its writer', async () => {
  const path = join(await makeFolder(), 'apps.ndjson')
  execFileSync('mkfifo', [path])
  const { kept, notices } = await openKept(path, false)
  expect(notices).toEqual([
    expect.stringMatching(/cannot be used: .* is no regular file; those of NATS are waited for/),
  ])
  await kept.stop()
})

test('records that an earlier version kept have the bytes that go with their events', async () => {
  const path = join(await makeFolder(), 'apps.ndjson')
  const { kept, timers } = await openKept(path, true)
  await timers.pass(5000)
  await kept.stop()
  const earlier = readFileSync(path, 'utf8').replaceAll(/"bytesPerMinute":\d+,/g, '')
  writeFileSync(path, earlier.replace('"eventsPerMinute":500', '"eventsPerMinute":1000'))
  const again = await openKept(path, false)
  const [first, second] = [...again.kept.all()]
  expect([first.bytesPerMinute, second.bytesPerMinute]).toEqual([4_096_000, 2_097_152])
  await again.kept.stop()
})
