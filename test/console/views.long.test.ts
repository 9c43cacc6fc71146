// The console's views in a real Chromium, against a double of the admin API: what each shows, and that it is live.

import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { BATCH_ID, busyNow, foundBatch, refusalOf, sampledEvent } from '../support/console-data.ts'
import { ok } from '../support/console-double.ts'
import { expectShown } from '../support/console-page.ts'
import { consoleStage } from '../support/console-stage.ts'
import { eventually } from '../support/service.ts'

const stage = consoleStage()
const { open } = stage

const textOf = (page: Page, selector: string): Promise<string> => page.locator(selector).first().innerText()

describe('Now', () => {
  test('answers "is it us or them?" in words, with five figures of 15 minutes', async () => {
    const page = await open('/')
    await expectShown(page, 'It is not us: 37 requests/s are refused by rule')
    await page.locator('.plot canvas').nth(4).waitFor()
    expect(await page.locator('.figure h2').allInnerTexts()).toEqual([
      'Accepted',
      'Refused by us',
      'Refused by rule',
      'p99 latency',
      'Oldest unread by warehouse',
    ])
    expect(await page.locator('.figure .value').allInnerTexts()).toEqual([
      '12,480 events/s',
      '0 /s',
      '37 /s',
      '6.1 ms',
      '1.4 s',
    ])
    await expectShown(page, '41 GiB of 90 GiB (full in 9 days at this rate) · oldest 51 h of 72 h')
  })

  test('turns red when we refuse, and names what is away', async () => {
    const page = await open('/')
    await expectShown(page, 'It is not us')
    const calm = busyNow()
    stage.double.now = {
      ...calm,
      state: 'degraded',
      state_reason: 'NATS away for 12 s',
      parts: [{ part: 'NATS', state: 'away', up: false, latency_seconds: null }],
      rates: { ...(calm['rates'] as object), refused_per_second: { service_overloaded: 900 } },
    }
    await expectShown(page, 'It is us: we refuse 900 requests/s: NATS is not there.')
    expect(await textOf(page, '.state')).toContain('degraded (NATS away for 12 s)')
    expect(await page.locator('.verdict.fail').count()).toBe(1)
  })

  test('a refusal in the last hour leads to Refused with its filter', async () => {
    const page = await open('/')
    await page.getByRole('link', { name: 'news-reader-for-tablets' }).click()
    await page.waitForURL('**/refused?app=news-reader-for-tablets')
    expect(await page.getByLabel('Filter').inputValue()).toBe('app:news-reader-for-tablets')
    await page.goBack()
    await expectShown(page, 'It is not us')
  })

  test('names the node that is silent, and the state of a draining service', async () => {
    const nodes = busyNow()['nodes'] as object[]
    stage.double.now = busyNow({ state: 'draining' })
    stage.double.now = { ...stage.double.now, nodes: [nodes[0], { ...nodes[1], state: 'silent', silent_seconds: 42 }] }
    const page = await open('/')
    await expectShown(page, 'silent for 42 s')
    expect(await textOf(page, '.state')).toMatch(/draining.*1 node, 1 silent/s)
  })

  test('a service that has had no event yet shows how to send one', async () => {
    stage.double.now = busyNow({
      rates: { requests_per_second: 0, events_accepted_per_second: 0, refused_per_second: {}, replays_per_second: 0 },
      latency_seconds: null,
      refused_last_hour: { by_code: [], by_app: [] },
    })
    const page = await open('/')
    await expectShown(page, 'Nothing was refused.')
    await expectShown(page, 'curl -i http://localhost:8080/api/v1/events')
  })
})

describe('Events', () => {
  const send = (from: number, to: number): void => {
    for (let number = from; number < to; number++)
      stage.double.send('/api/events/stream', 'event', sampledEvent(number))
  }
  async function openEvents(query = ''): Promise<Page> {
    const page = await open(`/events${query}`)
    await eventually('the page listens', () => stage.double.listeners('/api/events/stream') === 1)
    return page
  }

  test('shows events as they come, newest first, and how many of how many', async () => {
    const page = await openEvents()
    send(0, 2)
    await page.locator('.event-row').nth(1).waitFor()
    send(2, 3)
    await eventually('the third is on top', async () => (await textOf(page, '.event-row')).includes('purchase'))
    stage.double.send('/api/events/stream', 'rate', { seen_per_second: 12_480, shown_per_second: 50 })
    await expectShown(page, 'showing 50 of 12,480/s')
  })

  test('a filter goes into the URL, and from the URL to the stream', async () => {
    const page = await openEvents()
    await page.getByLabel('Filter').fill('app:shop name:check*')
    await page.waitForURL('**/events?app=shop&name=check*')
    await eventually('the stream has it', () => stage.double.listeners('/api/events/stream?app=shop&name=check*') === 1)
    await page.reload()
    expect(await page.getByLabel('Filter').inputValue()).toBe('app:shop name:check*')
    await page.getByLabel('Filter').fill('color:red')
    await expectShown(page, 'color:red is not a filter')
  })

  test('the space bar pauses, and what came meanwhile is counted', async () => {
    const page = await openEvents()
    send(0, 3)
    await page.locator('.event-row').nth(2).waitFor()
    await page.locator('body').press(' ')
    send(3, 10)
    await expectShown(page, '7 new')
    expect(await page.locator('.event-row').count()).toBe(3)
    await page.locator('body').press(' ')
    await page.locator('.event-row').nth(9).waitFor()
    await page.getByLabel('Filter').press(' ')
    expect(await page.getByRole('button', { name: /pause/ }).getAttribute('aria-pressed')).toBe('false')
  })

  test('a list that is scrolled stands still, and counts what has come', async () => {
    const page = await openEvents()
    send(0, 100)
    await page.locator('.event-row').nth(30).waitFor()
    await page.evaluate('scrollTo(0, 900)')
    const rows = page.locator('.rows > li')
    await eventually('later rows are shown', async () => Number(await rows.first().getAttribute('aria-posinset')) > 5)
    const before = await rows.allInnerTexts()
    send(100, 228)
    await page.getByRole('button', { name: '128 new' }).waitFor()
    expect(await rows.allInnerTexts()).toEqual(before)
    await page.getByRole('button', { name: '128 new' }).click()
    await eventually('it is at the top', async () => (await page.evaluate<number>('scrollY')) === 0)
    await page.getByText('128 new').waitFor({ state: 'detached' })
  })

  test('a number that a browser would round is shown as it was sent', async () => {
    const page = await openEvents()
    const event = { name: 'large', properties: { order: 'NUMBER' } }
    stage.double.sendText(
      '/api/events/stream',
      'event',
      JSON.stringify(sampledEvent(0, { event })).replace('"NUMBER"', '12345678901234567890.10'),
    )
    await page.locator('.event-row').click()
    await expectShown(page, '"order": 12345678901234567890.10')
  })

  test('an event opens in full beside the list, to copy as JSON or as curl', async () => {
    const page = await open('/events', { permissions: ['clipboard-read', 'clipboard-write'] })
    await eventually('the page listens', () => stage.double.listeners('/api/events/stream') === 1)
    send(0, 3)
    await page.locator('.event-row').nth(2).click()
    await page.locator('.detail pre').waitFor()
    expect(JSON.parse(await textOf(page, '.detail pre'))).toEqual(sampledEvent(0).event)
    await page.getByRole('button', { name: 'copy', exact: true }).click()
    expect(JSON.parse(await page.evaluate<string>('navigator.clipboard.readText()'))).toEqual(sampledEvent(0).event)
    await page.getByRole('button', { name: 'copy as curl' }).click()
    await eventually('it is copied', async () =>
      (await page.evaluate<string>('navigator.clipboard.readText()')).startsWith('curl -i'),
    )
    expect(await page.evaluate<string>('navigator.clipboard.readText()')).toContain(`friend'\\''s link`)
    await page.keyboard.press('Escape')
    expect(await page.locator('.detail').count()).toBe(0)
  })
})

describe('Refused', () => {
  test('groups come first, then the newest, and a code has its meaning', async () => {
    const page = await open('/refused?code=validation_failed')
    await expectShown(page, 'The batch does not fit the schema')
    await expectShown(page, 'Correct the request; sent again as it is, it is refused again.')
    await expectShown(page, 'refused: the client still has it')
    await page.locator('.groups li .spark').first().waitFor()
    expect(await textOf(page, '.groups li')).toMatch(/validation_failed[^]*shop[^]*SDK 2\.1\.0[^]*98,000/)
    const codes = await page.locator('.refusal-row .code').allInnerTexts()
    expect(new Set(codes)).toEqual(new Set(['validation_failed']))
  })

  test('a replay says that its events are not stored', async () => {
    const group = { app_id: 'shop', code: 'replayed_other_body', path: null, sdk_version: null, count: 2 }
    const times = { first_at: '2026-11-22T13:04:11.000Z', last_at: '2026-11-22T14:02:30.000Z' }
    const groups = [{ ...group, ...times, per_minute: Array.from({ length: 60 }, () => 0) }]
    stage.double.answers.set('/api/refusals', () => ok({ refusals: [], groups }))
    await expectShown(await open('/refused'), 'replayed: these events are not stored')
  })

  test('a filter that nothing fits does not say that every request was taken', async () => {
    stage.double.answers.set('/api/refusals', () => ok({ refusals: [], groups: [] }))
    const page = await open('/refused?app=shop')
    await expectShown(page, 'Nothing that fits was refused in the last hour.')
    expect(await page.getByText('Every request was taken.').count()).toBe(0)
  })

  test('a refusal appears as it happens, once', async () => {
    stage.double.answers.set('/api/refusals', () => ok({ refusals: [refusalOf(1)], groups: [] }))
    const page = await open('/refused')
    await expectShown(page, 'Nothing was refused in the last hour.')
    await page.locator('.refusal-row').first().waitFor()
    await eventually('the page listens', () => stage.double.listeners('/api/refusals/stream') === 1)
    const fresh = refusalOf(0, { time: '2026-11-22T15:00:00.000Z', app_id: 'just-now' })
    stage.double.send('/api/refusals/stream', 'refusal', fresh)
    stage.double.send('/api/refusals/stream', 'refusal', fresh)
    await expectShown(page, 'just-now')
    expect(await page.locator('.refusal-row').count()).toBe(2)
  })

  test('the list downloads as NDJSON', async () => {
    const page = await open('/refused?app=shop')
    await page.locator('.refusal-row').first().waitFor()
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'download NDJSON' }).click(),
    ])
    expect(download.suggestedFilename()).toBe('refusals.ndjson')
    const lines = (await readFile(await download.path(), 'utf8')).trim().split('\n')
    expect(lines.length).toBeGreaterThan(10)
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ app_id: 'shop' })
  })
})

describe('Batch', () => {
  test('an id is found: a sentence, a line of time, and its events', async () => {
    const page = await open('/batch')
    await page.getByRole('searchbox').fill(` ${BATCH_ID.toUpperCase()} `)
    await page.getByRole('button', { name: 'find' }).click()
    await expectShown(page, 'Stored, with 2 events of shop; read by warehouse, not yet by audit-log.')
    expect(page.url()).toBe(`${stage.double.url}/batch?id=${BATCH_ID}`)
    expect((await page.locator('.way li').allInnerTexts()).map((text) => text.replace(/\s+/g, ' '))).toEqual([
      'received 14:01:22.120',
      'stored at 8,120,441 in SLUICE_EVENTS 14:01:22.133',
      'read by warehouse 14:01:23.004',
      'not yet read by audit-log',
    ])
    expect(await page.locator('details').count()).toBe(2)
  })

  test('app and key ask for both; not found says how far back it looked, and offers to look further', async () => {
    const key = '7f0e0bb2-6c3a-4d5e-9a53-2a6a4d1c9a10'
    const page = await open('/batch')
    await page.getByRole('searchbox').fill(`app:shop key:${key}`)
    await page.keyboard.press('Enter')
    await expectShown(page, 'Only the last ten minutes were read.')
    await expectShown(page, '2026-11-22 13:52:31 to 14:02:31 UTC')
    await page.getByRole('link', { name: '24 h' }).click()
    await eventually('it asks since when', () =>
      stage.double.asked.some(
        ({ path, query }) => path === '/api/batches' && query['key'] === key && query['since'] === '24h',
      ),
    )
  })

  test('what is neither is said, and asks nothing', async () => {
    const page = await open('/batch')
    await page.getByRole('searchbox').fill('shop')
    await page.keyboard.press('Enter')
    await expectShown(page, 'Write a batch id (a UUID), or an app id and an Idempotency-Key.')
    expect(stage.double.asked.some(({ path }) => path.startsWith('/api/batches'))).toBe(false)
  })

  test('a wrong question takes the answer to the one before it away', async () => {
    const page = await open(`/batch?id=${BATCH_ID}`)
    await expectShown(page, 'Stored, with 2 events of shop')
    await page.getByRole('searchbox').fill('shop')
    await page.keyboard.press('Enter')
    await expectShown(page, 'Write a batch id (a UUID), or an app id and an Idempotency-Key.')
    expect(await page.getByText('Stored, with 2 events of shop').count()).toBe(0)
  })

  test('a batch of the journal says where in it', async () => {
    const place = { kind: 'journal', segment: '00000012.ndjson', offset_bytes: 1_048_576, length_bytes: 512 }
    stage.double.answers.set(`/api/batches/${BATCH_ID}`, () => ok(foundBatch({ place, consumers: [] })))
    const page = await open(`/batch?id=${BATCH_ID}`)
    await expectShown(page, 'stored at byte 1,048,576 of 00000012.ndjson')
    await expectShown(page, 'who has read it is not known: a journal has no consumers.')
  })
})

describe('Apps', () => {
  test('a thousand apps: the fullest first, few in the document, all by scrolling', async () => {
    const page = await open('/apps')
    await expectShown(page, '1,000 apps')
    expect(await textOf(page, '.app-row')).toMatch(/shop[^]*1,000 of 1,000[^]*none left/)
    expect(await textOf(page, '.app-row')).toContain('of 5,000,000 +10%')
    expect(await page.locator('.use.warn').count()).toBeGreaterThan(2)
    expect(await page.locator('.app-row').count()).toBeLessThan(60)
    await page.evaluate('scrollTo(0, document.body.scrollHeight)')
    await expectShown(page, 'app-0999')
    expect(await page.locator('.app-row').count()).toBeLessThan(60)
  })

  test('search as one types, and another order, are in the URL', async () => {
    const page = await open('/apps')
    await expectShown(page, '1,000 apps')
    await page.getByRole('searchbox').fill('customer 77')
    await expectShown(page, '11 of 1,000 apps')
    await page.getByLabel('sort by').selectOption('name')
    await page.waitForURL('**/apps?app=customer+77&sort=name')
    expect(await textOf(page, '.app-row .app')).toBe('app-0077')
  })

  test('no app fits, and no app at all, say so', async () => {
    const page = await open('/apps?app=nobody')
    await expectShown(page, 'No app fits.')
    stage.double.answers.set('/api/apps', () => ok({ apps: [], total_apps: 0, read_at: '2026-11-22T14:02:31.000Z' }))
    await expectShown(await open('/apps'), 'sluice apps add shop --plan 100k')
  })
})

describe('Explain', () => {
  const BODY = '{"app_key":"ak_shop","events":[{"type":"track"},{"context":{"os":""},"properties":{"colour":"long"}}]}'

  test('every offending member is marked in the text, and the limits left are said', async () => {
    const page = await open('/explain')
    await page.getByLabel('A body as an SDK sends it').fill(BODY)
    await page.getByLabel('as app key').fill('ak_other')
    await page.getByRole('button', { name: 'explain', exact: true }).click()
    await expectShown(page, '400 validation_failed: events[0].name: required')
    expect(await page.locator('mark').allInnerTexts()).toEqual(['{', '"os":""', '"colour":"long"'])
    expect(await page.locator('mark').nth(1).getAttribute('title')).toBe(
      'events[1].context.os: length must be at least 1',
    )
    await expectShown(page, '188 of 1,000 events')
    await expectShown(page, '3,495,689 of 5,000,000 +10% events')
    const asked = stage.double.asked.find(({ path }) => path === '/api/explain')
    expect(asked).toMatchObject({ method: 'POST', query: { app_key: 'ak_other' }, body: BODY })
  })

  test('a dropped file is explained at once, and one that is too large is not sent', async () => {
    const page = await open('/explain')
    const file = (text: string): { name: string; mimeType: string; buffer: Buffer } => ({
      name: 'body.json',
      mimeType: 'application/json',
      buffer: Buffer.from(text),
    })
    await page.locator('input[type=file]').setInputFiles(file(BODY))
    await expectShown(page, '3 offending members')
    await page.locator('input[type=file]').setInputFiles(file('x'.repeat(524_289)))
    await expectShown(page, 'The file has 524,289 bytes; a body has at most 524,288.')
    expect(stage.double.asked.filter(({ path }) => path === '/api/explain')).toHaveLength(1)
  })
})
