// The limits of minute, day and month over HTTP, exact to the event: alone, at once, and over a crash. Every rule of them is in
// test/integration/admission-contract.test.ts, and the tenth of a paid plan in test/unit/apps/plans.test.ts.

import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { type Answer, batch, event, expectAccepted, expectRefused, figures, post, single } from '../support/client.ts'
import { readJournal } from '../support/journal-files.ts'
import { appRecord, roomInMinute, type Service, sleep, startService } from '../support/service.ts'

const FAST = { events_per_minute: 1_000_000 }
const APPS = [
  appRecord('turning', { events_per_minute: 10 }),
  appRecord('minute', { events_per_minute: 50 }),
  appRecord('near', { plan: '100k', events_per_minute: 100, events_per_day: 150 }),
  appRecord('near_month', { plan: '10k', events_per_month: 100, ...FAST }),
  appRecord('huge', { plan: 'trial', events_per_minute: 1, events_per_month: Number.MAX_SAFE_INTEGER }),
  appRecord('day', { events_per_day: 30 }),
  appRecord('month_trial', { plan: 'trial', ...FAST }),
  appRecord('month_10k', { plan: '10k', ...FAST }),
  appRecord('quota', { plan: 'trial', events_per_month: 20, events_per_day: 20, events_per_minute: 20 }),
  appRecord('replays', { events_per_minute: 20 }),
  appRecord('crowd', { events_per_minute: 150 }),
  appRecord('crash', { plan: 'trial', events_per_month: 50, events_per_day: 40, events_per_minute: 30 }),
  appRecord('crash_month', { plan: 'trial', events_per_month: 50 }),
  appRecord('crash_day', { events_per_day: 50 }),
]

let service: Service
let turnsAtSeconds = 0

beforeAll(async () => {
  service = await startService({ apps: APPS })
  // Spent here, and looked at again by the last test, when the minute has turned.
  await roomInMinute(5)
  const answer = await post(service, batch('ak_turning', 10))
  expectAccepted(answer, 10)
  expectRefused(await post(service, single('ak_turning')), 429, 'rate_limit_exceeded')
  turnsAtSeconds = figures(answer).reset
})

/** Sends until the first refusal, in batches of `size`; says how many events were taken, and what refused. */
async function spend(appKey: string, size: number): Promise<{ readonly taken: number; readonly refused: Answer }> {
  const body = batch(appKey, size)
  for (let taken = 0; ; taken += size) {
    const answer = await post(service, body)
    if (answer.status !== 202) return { taken, refused: answer }
  }
}

describe('the minute', () => {
  test('counts events, whole batches or none, and says what is left', async () => {
    await roomInMinute(8)
    expect(figures(await post(service, batch('ak_minute', 20)))).toMatchObject({ limit: 50, remaining: 30 })
    const tooMany = await post(service, batch('ak_minute', 31))
    expectRefused(tooMany, 429, 'rate_limit_exceeded')
    expect(figures(tooMany).remaining).toBe(30)
    const wait = Number(tooMany.headers['retry-after'])
    const left = figures(tooMany).reset - Date.now() / 1000
    expect(wait).toBeGreaterThan(left - 2)
    expect(wait).toBeLessThan(left + 3)
    const rest = await post(service, batch('ak_minute', 30))
    expectAccepted(rest, 30)
    expect(figures(rest).remaining).toBe(0)
    expectRefused(await post(service, single('ak_minute')), 429, 'rate_limit_exceeded')
    expectRefused(await post(service, batch('ak_minute', 0)), 429, 'rate_limit_exceeded')
  })
})

describe('RateLimit and RateLimit-Policy', () => {
  const MONTH_SECONDS = ((now) =>
    (Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1) - Date.UTC(now.getUTCFullYear(), now.getUTCMonth())) / 1000)(
    new Date(),
  )
  const told = ({ headers }: Answer) => [headers['ratelimit-policy'], headers['ratelimit']]
  const untold = [undefined, undefined]
  const bytesPolicy = (limit: number) => `"bytes";q=${limit};qu="content-bytes";w=60`

  test('come when less than a fifth of a window is left, one item a window, and on every 429', async () => {
    await roomInMinute(8)
    const fifth = await post(service, batch('ak_near', 80))
    expectAccepted(fifth, 80)
    expect(told(fifth)).toEqual(untold)
    const near = await post(service, single('ak_near'))
    expectAccepted(near, 1)
    expect(told(near)).toEqual([
      `"minute";q=100;w=60, "day";q=150;w=86400, "month";q=110000;w=${MONTH_SECONDS}, ${bytesPolicy(2_097_152)}`,
      expect.stringMatching(/^"minute";r=19;t=\d+, "day";r=69;t=\d+, "month";r=109919;t=\d+, "bytes";r=\d+;t=\d+/),
    ])
    const over = await post(service, batch('ak_near', 20))
    expectRefused(over, 429, 'rate_limit_exceeded')
    expect(told(over)[1]).toMatch(/^"minute";r=19;t=\d+, "day";r=69;t=\d+, "month";r=109919;t=\d+, "bytes";/)
    expect(told(over)[1]).toContain(`"minute";r=19;t=${over.headers['retry-after']},`)
    const invalid = await post(service, single('ak_near', { type: 'x' }))
    expectRefused(invalid, 400, 'validation_failed')
    expect(told(invalid)[0]).toBe(told(near)[0])
    expect(told(await post(service, single('ak_nobody')))).toEqual(untold)
  })

  test('come on a 429 of an app that has used little', async () => {
    await roomInMinute(5)
    expect(told(await post(service, batch('ak_minute', 51)))[0]).toBeDefined()
  })

  test('show the minute and its bytes alone where the request has an Origin, whether pages may send or not', async () => {
    await roomInMinute(5)
    const Origin = 'https://app.example.com'
    expect(told(await post(service, batch('ak_near_month', 80), { Origin }))).toEqual(untold)
    const near = await post(service, batch('ak_near_month', 20), { Origin })
    expectAccepted(near, 20)
    expect(told(near)).toEqual([
      `"minute";q=1000000;w=60, ${bytesPolicy(4_096_000_000)}`,
      expect.stringMatching(/^"minute";r=999900;t=\d+, "bytes";r=\d+;t=\d+/),
    ])
    expect(told(await post(service, batch('ak_near_month', 11)))[1]).toMatch(/, "month";r=10;t=\d+, "bytes";/)
  })

  test('hold no integer that a structured field cannot', async () => {
    await roomInMinute(5)
    const over = await post(service, batch('ak_huge', 2))
    expect(told(over)).toEqual([
      `"minute";q=1;w=60, "month";q=999999999999999;w=${MONTH_SECONDS}, ${bytesPolicy(2_097_152)}`,
      expect.stringMatching(/^"minute";r=1;t=\d+, "month";r=999999999999999;t=\d+, "bytes";r=2097152;t=\d+/),
    ])
  })
})

describe('the day', () => {
  test('has its own limit, and ends at midnight UTC', async () => {
    await roomInMinute(5)
    expectAccepted(await post(service, batch('ak_day', 20)), 20)
    const answer = await post(service, batch('ak_day', 11))
    expectRefused(answer, 429, 'daily_limit_exceeded')
    const leftSeconds = 86_400 - ((Date.now() / 1000) % 86_400)
    expect(Math.abs(Number(answer.headers['retry-after']) - leftSeconds)).toBeLessThanOrEqual(5)
    expectAccepted(await post(service, batch('ak_day', 10)), 10)
    expectRefused(await post(service, single('ak_day')), 429, 'daily_limit_exceeded')
  })
})

describe('the month', () => {
  const months = [
    { id: 'month_trial', limit: 10_000, claim: 'a trial ends at exactly 10,000' },
    { id: 'month_10k', limit: 11_000, claim: 'a paid plan tolerates a tenth: 10K ends at exactly 11,000' },
  ]
  for (const { id, limit, claim } of months) {
    test(claim, async () => {
      let total = 0
      for (const size of [100, 10, 1]) {
        const { taken, refused } = await spend(`ak_${id}`, size)
        expectRefused(refused, 429, 'monthly_limit_exceeded')
        total += taken
      }
      expect(total).toBe(limit)
    })
  }
})

describe('what costs nothing', () => {
  test('nothing that is refused costs', async () => {
    await roomInMinute(8)
    const bad: [string | Buffer, Record<string, string>][] = [
      [single('ak_quota', { type: 'x' }), {}],
      [batch('ak_quota', 101), {}],
      [batch('ak_quota', 21), {}],
      [`${single('ak_quota')}}`, {}],
      [single('ak_quota'), { 'Content-Type': 'text/plain' }],
      [single('ak_quota'), { 'Idempotency-Key': 'x' }],
      [batch('ak_quota', 2, { events: [event(), event({ name: '' })] }), {}],
    ]
    for (const [body, headers] of bad) {
      const answer = await post(service, body, headers)
      expect(answer.status).toBeGreaterThanOrEqual(400)
    }
    const all = await post(service, batch('ak_quota', 20))
    expectAccepted(all, 20)
    expect(figures(all).remaining).toBe(0)
  })

  test('a replay costs nothing', async () => {
    await roomInMinute(8)
    const headers = { 'Idempotency-Key': randomUUID() }
    expectAccepted(await post(service, batch('ak_replays', 15), headers), 15)
    for (let i = 0; i < 5; i++) {
      const replay = await post(service, batch('ak_replays', 15), headers)
      expectAccepted(replay, 15, true)
      expect(figures(replay)).toMatchObject({ limit: 20, remaining: 5 })
    }
    expectAccepted(await post(service, batch('ak_replays', 5)), 5)
    expectAccepted(await post(service, batch('ak_replays', 15), headers), 15, true)
  })
})

test('200 requests at once take exactly a limit of 150', async () => {
  await roomInMinute(8)
  const answers = await Promise.all(Array.from({ length: 200 }, () => post(service, single('ak_crowd'))))
  const refused = answers.filter((answer) => answer.status !== 202)
  expect(refused.length).toBe(50)
  for (const answer of refused) expectRefused(answer, 429, 'rate_limit_exceeded')
  expect(readJournal(service.dataDir).filter((record) => record.app_id === 'crowd').length).toBe(150)
})

describe('over a crash', () => {
  test('kill -9 and a restart forget nothing that was accepted', async () => {
    await roomInMinute(15)
    expectAccepted(await post(service, batch('ak_crash', 25)), 25)
    expectAccepted(await post(service, batch('ak_crash_month', 45)), 45)
    expectAccepted(await post(service, batch('ak_crash_day', 45)), 45)
    await service.kill()
    service = await startService({ dataDir: service.dataDir })
    expectRefused(await post(service, batch('ak_crash', 6)), 429, 'rate_limit_exceeded')
    const rest = await post(service, batch('ak_crash', 5))
    expectAccepted(rest, 5)
    expect(figures(rest)).toMatchObject({ limit: 30, remaining: 0 })
    expectRefused(await post(service, batch('ak_crash_month', 6)), 429, 'monthly_limit_exceeded')
    expectAccepted(await post(service, batch('ak_crash_month', 5)), 5)
    expectRefused(await post(service, batch('ak_crash_day', 6)), 429, 'daily_limit_exceeded')
    expectAccepted(await post(service, batch('ak_crash_day', 5)), 5)
  })

  test('a restart in good order forgets nothing either', async () => {
    expect((await service.stop()).code).toBe(0)
    service = await startService({ dataDir: service.dataDir })
    expectRefused(await post(service, single('ak_crash_month')), 429, 'monthly_limit_exceeded')
    expectRefused(await post(service, single('ak_crash_day')), 429, 'daily_limit_exceeded')
    expectRefused(await post(service, single('ak_month_10k')), 429, 'monthly_limit_exceeded')
  })
})

test('a minute is full again when it turns', async () => {
  const leftMs = turnsAtSeconds * 1000 - Date.now()
  if (leftMs > 0) await sleep(leftMs + 20)
  const answer = await post(service, batch('ak_turning', 10))
  expectAccepted(answer, 10)
  expect(figures(answer)).toMatchObject({ limit: 10, remaining: 0 })
  expect(figures(answer).reset).toBeGreaterThan(turnsAtSeconds)
})
