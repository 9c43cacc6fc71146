// One key, one batch: replays, twins, scope, and what a restart or a crash remembers.

import { randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import { batch, event, expectAccepted, expectRefused, post, single, uuidVersion } from '../support/client.ts'
import { readPage } from '../support/hostile.ts'
import { readJournal } from '../support/journal-files.ts'
import { appRecord, roomInMinute, type Service, startService } from '../support/service.ts'

const APPS = [
  appRecord('plain'),
  appRecord('other'),
  appRecord('full', { events_per_minute: 10 }),
  appRecord('tight', { events_per_minute: 10 }),
]

let service: Service

beforeAll(async () => {
  service = await startService({ apps: APPS })
})

const keyed = (key: string): Record<string, string> => ({ 'Idempotency-Key': key })
const storedOf = (batchId: string): number =>
  readJournal(service.dataDir).filter((record) => record.batch_id === batchId).length

describe('a key', () => {
  for (const key of [
    '00000000-0000-0000-0000-000000000000',
    'ffffffff-ffff-ffff-ffff-ffffffffffff',
    '6BA7B810-9DAD-11D1-80B4-00C04FD430C8',
    '0190d8a2-7d5e-7c3f-8a1b-0123456789ab',
    'e4eaaaf2-d142-11e1-b3e4-080027620cdd',
  ]) {
    test(`${key} is a UUID`, async () => {
      const batchId = expectAccepted(await post(service, single('ak_plain'), keyed(key)), 1)
      expect(uuidVersion(batchId)).toBe(5)
    })
  }

  for (const key of [
    '',
    'x',
    '6ba7b8109dad11d180b400c04fd430c8',
    '{6ba7b810-9dad-11d1-80b4-00c04fd430c8}',
    'urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8',
    '6ba7b810-9dad-11d1-80b4-00c04fd430c',
    '6ba7b810-9dad-11d1-80b4-00c04fd430c88',
    '6ba7b810-9dad-11d1-80b4-00c04fd430cg',
    '6ba7b81-09dad-11d1-80b4-00c04fd430c8',
    '6ba7b810-9dad-11d1-80b4-00c04fd430c8, 6ba7b810-9dad-11d1-80b4-00c04fd430c8',
  ]) {
    test(`"${key}" is not`, async () => {
      expectRefused(await post(service, single('ak_plain'), keyed(key)), 400, 'validation_failed')
    })
  }

  test('is compared in lower case', async () => {
    const key = randomUUID()
    const first = expectAccepted(await post(service, batch('ak_plain', 3), keyed(key.toUpperCase())), 3)
    expect(expectAccepted(await post(service, batch('ak_plain', 3), keyed(key)), 3, true)).toBe(first)
    expect(storedOf(first)).toBe(1)
  })

  test('belongs to its app', async () => {
    const key = randomUUID()
    const first = expectAccepted(await post(service, batch('ak_plain', 3), keyed(key)), 3)
    const second = expectAccepted(await post(service, batch('ak_other', 2), keyed(key)), 2)
    expect(second).not.toBe(first)
    expect(expectAccepted(await post(service, batch('ak_other', 9), keyed(key)), 2, true)).toBe(second)
  })
})

describe('a replay', () => {
  test('gets the first answer, whatever body it brings, and queues nothing', async () => {
    const key = randomUUID()
    const first = expectAccepted(await post(service, batch('ak_plain', 7), keyed(key)), 7)
    for (const body of [batch('ak_plain', 7), batch('ak_plain', 1), '{"app_key":"ak_plain"}']) {
      expect(expectAccepted(await post(service, body, keyed(key)), 7, true)).toBe(first)
    }
    expect(storedOf(first)).toBe(1)
  })

  test('of an empty batch is a replay', async () => {
    const key = randomUUID()
    const first = expectAccepted(await post(service, batch('ak_plain', 0), keyed(key)), 0)
    expect(expectAccepted(await post(service, batch('ak_plain', 0), keyed(key)), 0, true)).toBe(first)
  })
})

describe('only what was accepted is remembered', () => {
  test('a refused body may be mended under its key', async () => {
    const key = randomUUID()
    expectRefused(await post(service, single('ak_plain', { type: 'x' }), keyed(key)), 400, 'validation_failed')
    expectRefused(await post(service, `${single('ak_plain')}}`, keyed(key)), 400, 'invalid_json')
    expectAccepted(await post(service, single('ak_plain'), keyed(key)), 1)
  })

  test('what was over a limit may come again under its key', async () => {
    await roomInMinute(5)
    const key = randomUUID()
    expectAccepted(await post(service, batch('ak_full', 8)), 8)
    expectRefused(await post(service, batch('ak_full', 3), keyed(key)), 429, 'rate_limit_exceeded')
    expectAccepted(await post(service, batch('ak_full', 2), keyed(key)), 2)
  })
})

describe('twins', () => {
  test('50 at once under one key: one is queued, 49 get its answer', async () => {
    const key = randomUUID()
    const body = batch('ak_plain', 5)
    const answers = await Promise.all(Array.from({ length: 50 }, () => post(service, body, keyed(key))))
    const fresh = answers.filter((answer) => answer.json['deduplicated'] === undefined)
    expect(fresh.length).toBe(1)
    const ids = answers.map((answer) => expectAccepted(answer, 5, answer !== fresh[0]))
    expect(new Set(ids).size).toBe(1)
    expect(storedOf(ids[0])).toBe(1)
  })

  test('where a twin fails, the next is handled itself', async () => {
    const key = randomUUID()
    const bodies = Array.from({ length: 40 }, (_, index) =>
      index % 2 === 0 ? batch('ak_plain', 2, { events: [event(), event({ name: '' })] }) : batch('ak_plain', 2),
    )
    const answers = await Promise.all(bodies.map((body) => post(service, body, keyed(key))))
    const accepted = answers.filter((answer) => answer.status === 202)
    const fresh = accepted.filter((answer) => answer.json['deduplicated'] === undefined)
    expect(fresh.length).toBe(1)
    for (const answer of answers) if (answer.status !== 202) expectRefused(answer, 400, 'validation_failed')
    expect(accepted.length).toBeGreaterThanOrEqual(20)
    expect(storedOf(String(fresh[0]?.headers['x-batch-id']))).toBe(1)
  })

  test('twins that are all over the limit are all refused, and hold nothing back', async () => {
    await roomInMinute(8)
    const key = randomUUID()
    const body = batch('ak_tight', 11)
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(service, body, keyed(key))))
    for (const answer of answers) expectRefused(answer, 429, 'rate_limit_exceeded')
    expectAccepted(await post(service, batch('ak_tight', 10), keyed(key)), 10)
  })

  test('twins of two apps do not meet', async () => {
    const key = randomUUID()
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        post(service, batch(index % 2 === 0 ? 'ak_plain' : 'ak_other', 1), keyed(key)),
      ),
    )
    expect(answers.filter((answer) => answer.json['deduplicated'] === undefined).length).toBe(2)
    expect(new Set(answers.map((answer) => answer.headers['x-batch-id'])).size).toBe(2)
  })
})

describe('a restart', () => {
  for (const [claim, end] of [
    ['in good order', async () => void (await service.stop())],
    ['after kill -9', () => service.kill()],
  ] as const) {
    test(`${claim} remembers every accepted key and its count, and queues nothing again`, async () => {
      const sent = await Promise.all(
        Array.from({ length: 30 }, async (_, index) => {
          const key = randomUUID()
          const count = (index % 9) + 1
          const batchId = expectAccepted(await post(service, batch('ak_plain', count), keyed(key)), count)
          return { key, count, batchId }
        }),
      )
      const before = readJournal(service.dataDir).length
      await end()
      service = await startService({ dataDir: service.dataDir })
      for (const { key, count, batchId } of sent) {
        const replayed = await post(service, batch('ak_plain', 1), keyed(key))
        expect(expectAccepted(replayed, count, true)).toBe(batchId)
        // The journal holds no hash of them.
        expect(replayed.headers['sluice-replay']).toBe('unknown')
      }
      expect(readJournal(service.dataDir).length).toBe(before)
    })
  }
})

describe('a replay says whether its events are those that were stored', () => {
  const events = [event(), event({ name: 'second' })]
  const json = JSON.stringify(events)
  const body = (members: string, list = json) => `{"app_key":"ak_plain","events":${list}${members}}`
  test.each([
    ['the same bytes', body(''), 'same'],
    ['another sdk_version', body(',"sdk_version":"9.9.9"'), 'same'],
    ['an unnamed member beside the events', body(',"extra":{"a":[1,2]}'), 'same'],
    ['the events first', `{"events":${json},"app_key":"ak_plain"}`, 'same'],
    ['the same events beside a member of the wrong type', body(',"sdk_version":7'), 'same'],
    ['one event less', body('', JSON.stringify(events.slice(1))), 'other'],
    ['one byte changed', body('', json.replace('second', 'secone')), 'other'],
    ['one more space between events', body('', json.replace('},{', '}, {')), 'other'],
    ['no events', '{"app_key":"ak_plain"}', 'other'],
    ['no list of events', body('', '{}'), 'other'],
    ['one event that does not fit', body('', JSON.stringify([event({ name: '' })])), 'other'],
  ])('%s', async (_, again, replay) => {
    const key = randomUUID()
    const first = await post(service, body(''), keyed(key))
    expectAccepted(first, 2)
    expect(first.headers).not.toHaveProperty('sluice-replay')
    const second = await post(service, again, keyed(key))
    expectAccepted(second, 2, true)
    expect(second.headers['sluice-replay']).toBe(replay)
    const zipped = await post(service, gzipSync(again), { ...keyed(key), 'Content-Encoding': 'gzip' })
    expect(zipped.headers['sluice-replay']).toBe(replay)
  })

  test('a line break in place of a space is no difference, since the queue stores a space', async () => {
    const key = randomUUID()
    expectAccepted(await post(service, body('', json.replace('},{', '}, {')), keyed(key)), 2)
    const again = await post(service, body(',"sdk_version":7', json.replace('},{', '},\n{')), keyed(key))
    expect(again.headers['sluice-replay']).toBe('same')
  })
})

test('a replay with another body is counted, logged and answered as ever; one with the same body is none of these', async () => {
  const own = await startService({ apps: APPS })
  try {
    const [first, second] = [single('ak_plain', { name: 'first' }), single('ak_plain', { name: 'other' })]
    expect(first.length).toBe(second.length)
    const key = randomUUID()
    const batchId = expectAccepted(await post(own, first, keyed(key)), 1)
    for (const body of [first, second, gzipSync(second), first, '{"app_key":"ak_plain"}']) {
      const headers = typeof body === 'string' ? keyed(key) : { ...keyed(key), 'Content-Encoding': 'gzip' }
      expect(expectAccepted(await post(own, body, headers), 1, true)).toBe(batchId)
    }
    const page = await readPage(own)
    expect(page['sluice_replays_total{body="same"}']).toBe(2)
    expect(page['sluice_replays_total{body="other"}']).toBe(3)
    const { output } = await own.stop()
    expect(output).toContain('did not store 3 requests of app plain: replayed_other_body')
  } finally {
    await own.kill()
  }
})
