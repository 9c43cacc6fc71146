// The console's views in a real Chromium, against a double of the admin API: what each shows, and that it is live.

import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import type { Now } from '../../src/console/web/api-types.ts'
import { OVERLOAD_ADVICE } from '../../src/overload-advice.ts'
import { appOf, BATCH_ID, busyNow, foundBatch, groupOf, refusalOf, sampledEvent } from '../support/console-data.ts'
import { ok } from '../support/console-double.ts'
import { expectShown } from '../support/console-page.ts'
import { consoleStage } from '../support/console-stage.ts'
import { eventually } from '../support/service.ts'

const stage = consoleStage()
const { open } = stage

/** The one of the view, not that of the header. */
const pageBox = (page: Page) => page.getByRole('main').getByRole('searchbox')
const textOf = (page: Page, selector: string): Promise<string> => page.locator(selector).first().innerText()

describe('Now', () => {
  test('says that all is well, and what is rejected, with figures of 15 minutes', async () => {
    const page = await open('/')
    await expectShown(page, 'Healthy: 37 rejections/s, most by rate_limit_exceeded.')
    await page.locator('.plot canvas').nth(5).waitFor()
    expect(await page.locator('.figure h2').allInnerTexts()).toEqual([
      'Accepted',
      'Refused by us',
      'Client errors',
      'Limits',
      'p99 latency',
      'Oldest unread by warehouse',
    ])
    expect(await page.locator('.figure .value').allInnerTexts()).toEqual([
      '12,480 events/s',
      '0 /s',
      '6 /s',
      '31 /s',
      '6.1 ms',
      '1.4 s',
    ])
    expect(await page.locator('.parts li').allInnerTexts()).toEqual([
      'HTTP\n813 connections',
      'Ring\n3% of 64 MiB',
      'Queue\nNATS JetStream, 41 GiB of 90 GiB (full in 9 days at this rate), oldest 51 h of 72 h, 1.1 ms',
      'Rate limits\nin Redis, 0.4 ms',
      'App records\nin NATS',
      'warehouse\n1.4 s behind',
      'audit-log\nhas read all',
      'audit\n6 s behind',
    ])
  })

  test('shows plots of an hour and of a day', async () => {
    const page = await open('/')
    const { history } = busyNow()
    stage.double.answers.set('/api/now', () =>
      ok({ ...busyNow(), history: { ...(history as object), step_seconds: 480 } }),
    )
    await page.getByLabel('plots of the last').selectOption('24h')
    await page.getByRole('img', { name: /^Limits, last 24 h: at most/ }).waitFor()
    expect(stage.double.asked.findLast(({ path }) => path === '/api/now')).toMatchObject({ query: { range: '24h' } })
  })

  test('leaves out who reads where there are no consumers', async () => {
    const queue = busyNow()['queue'] as object
    stage.double.now = { ...busyNow(), queue: { ...queue, consumers: [] } }
    const page = await open('/')
    await expectShown(page, 'Healthy')
    expect(await page.locator('.figure h2').allInnerTexts()).toHaveLength(5)
  })

  test('shows what a 202 survives, as a warning where something should be mended', async () => {
    const said = 'a 202 survives: a kill of any server; one replica of SLUICE_EVENTS'
    const durability = { part: 'durability', kind: 'durability', state: 'warn', reason: null, up: true, text: said }
    const parts = [...(busyNow()['parts'] as object[]), { ...durability, node: null, latency_seconds: null }]
    stage.double.now = { ...busyNow(), parts }
    const page = await open('/')
    await expectShown(page, said)
    expect(await page.locator('.parts .warn', { hasText: said }).count()).toBe(1)
    await expectShown(page, 'Healthy')
  })

  test.each([
    ['Redis away', 'degraded', 'Redis away for 12 s', {}, 'Degraded: Redis away for 12 s'],
    ['NATS away', 'refusing', 'NATS away for 12 s', { nats_away: 900 }, 'Refusing 900 requests/s: NATS away for 12 s'],
    ['a full journal', 'refusing', 'journal full for 5 s', { journal_full: 0 }, 'Refusing: journal full for 5 s'],
    ['a full ring', 'refusing', 'ring full', { ring_full: 9.8 }, 'Refusing 9.8 requests/s: ring full'],
    ['a start', 'starting', 'connecting to NATS for 2 s', {}, 'Starting: connecting to NATS for 2 s'],
    ['a stop', 'stopping', null, { stopping: 3 }, 'Stopping'],
  ] as const)('%s is said in the same words by the header and the first sentence', async (_, state, why, of, text) => {
    const reasons = Object.entries<number>(of).map(([reason, per_second]) => ({ reason, per_second }))
    const ours = reasons.reduce((sum, { per_second: rate }) => sum + rate, 0)
    const rates = { ...(busyNow()['rates'] as Now['rates']), refused_per_second: { service_overloaded: ours } }
    stage.double.now = busyNow({ state, state_reason: why, reasons, rates })
    const page = await open('/')
    await expectShown(page, text)
    expect(await textOf(page, '.state .words')).toBe(text)
    expect(await textOf(page, '.verdict')).toMatch(new RegExp(`^${text}\\.`))
    const todo = OVERLOAD_ADVICE[reasons[0]?.reason as keyof typeof OVERLOAD_ADVICE]?.todo
    expect((await textOf(page, '.verdict')).includes(`To do: ${todo}.`)).toBe(state === 'refusing')
    expect(await page.locator('.verdict.fail').count()).toBe(state === 'refusing' ? 1 : 0)
  })

  test('without a connection it does not say that all is well', async () => {
    const page = await open('/')
    await expectShown(page, 'Healthy')
    stage.double.goAway()
    await expectShown(page, /^No connection\. At \d\d:\d\d:\d\d UTC it was: Healthy\.$/)
    expect(await textOf(page, '.state .words')).toBe('No connection')
    expect(await page.locator('.verdict.unknown').count()).toBe(1)
  })

  test('a refusal in the last hour leads to Refused with its filter', async () => {
    const page = await open('/')
    await page.getByRole('link', { name: 'news-reader-for-tablets' }).click()
    await page.waitForURL('**/refused?app=news-reader-for-tablets')
    expect(await page.getByLabel('Filter').inputValue()).toBe('app:news-reader-for-tablets')
    await page.goBack()
    await expectShown(page, 'Healthy')
  })

  test('names the node that is silent, and when it was last seen', async () => {
    const nodes = busyNow()['nodes'] as object[]
    stage.double.now = busyNow({ state: 'degraded', state_reason: '1 of 2 nodes does not answer' })
    stage.double.now = { ...stage.double.now, nodes: [nodes[0], { ...nodes[1], state: 'silent', silent_seconds: 42 }] }
    const page = await open('/')
    await expectShown(page, 'no answer, last seen 42 s ago')
    expect(await textOf(page, '.state')).toMatch(/Degraded: 1 of 2 nodes does not answer.*1 node, 1 silent/s)
  })

  test('a service that has had no event yet shows how to send one', async () => {
    stage.double.now = busyNow({
      rates: { requests_per_second: 0, events_accepted_per_second: 0, refused_per_second: {}, replays_per_second: 0 },
      latency_seconds: null,
      refused_last_hour: { by_code: [], by_app: [] },
    })
    const page = await open('/')
    await expectShown(page, 'Nothing was refused.')
    await expectShown(page, 'curl -i https://127.0.0.1:8443/api/v1/events')
    await expectShown(page, '"app_key":"ak_demo_1"')
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

  test('begins with what is stored, then goes on, each event once and by its time', async () => {
    const stored = Array.from({ length: 200 }, (_, at) => sampledEvent(199 - at, { node: null }))
    stage.double.answers.set('/api/events', () => ok({ events: stored, searched_back_to: null, complete: true }))
    const page = await openEvents('?app=shop')
    const rows = page.locator('.rows > li')
    await eventually(
      'the stored ones are there',
      async () => (await rows.first().getAttribute('aria-setsize')) === '200',
    )
    expect(stage.double.asked.find(({ path }) => path === '/api/events')?.query).toEqual({ app: 'shop' })
    const linkOf = (at: number) => page.locator('.event-row').nth(at).getAttribute('href')
    send(198, 203)
    await eventually('three are new', async () => (await rows.first().getAttribute('aria-setsize')) === '203')
    for (const at of [0, 1, 2, 3, 4])
      expect(await linkOf(at)).toContain(`id=${sampledEvent(202 - at).batch_id}&event=0`)
  })

  test('after a lost connection it reads again, and leaves out what lies before a gap', async () => {
    const page = await openEvents()
    send(0, 3)
    await page.locator('.event-row').nth(2).waitFor()
    const stored = [sampledEvent(402), sampledEvent(401)]
    stage.double.answers.set('/api/events', () => ok({ events: stored, searched_back_to: null, complete: true }))
    stage.double.goAway()
    await expectShown(page, 'No connection to this node since')
    stage.double.goAway(false)
    await eventually('only the two are there', async () => (await page.locator('.event-row').count()) === 2)
  })

  test('says that no event has come only where none is stored', async () => {
    const { answers } = stage.double
    let status = 503
    answers.set('/api/events', () =>
      status === 503
        ? { status, body: { error: 'busy', message: 'others ask the same of this node' } }
        : ok({ events: [], searched_back_to: null, complete: true }),
    )
    const page = await openEvents()
    await expectShown(page, 'Others ask the same of this node.')
    expect(await page.getByText('No event has come yet.').count()).toBe(0)
    status = 200
    await expectShown(page, 'No event has come yet.')
    await expectShown(page, 'curl -i https://127.0.0.1:8443/api/v1/events')
    const searched = { events: [], searched_back_to: '2026-11-22T13:00:00.000Z', complete: false }
    answers.set('/api/events', () => ok(searched))
    await expectShown(await open('/events?app=shop'), 'came back to 2026-11-22 13:00:00 UTC: older ones may fit.')
  })

  test('the row under the pointer is the row that is clicked, at 30 events a second', async () => {
    const page = await openEvents()
    let sent = 60
    send(0, sent)
    const row = page.locator('.event-row').nth(5)
    await row.waitFor()
    const { x, y } = await row.evaluate((element) => element.getBoundingClientRect())
    const sending = setInterval(() => send(sent, ++sent), 33)
    try {
      for (let round = 0; round < 12; round++) {
        await page.mouse.move(x + 200, y + 10)
        const aimed = await page.locator('.event-row:hover').getAttribute('href')
        await page.getByRole('button', { name: /^\d{2,} new$/ }).waitFor()
        await page.mouse.down()
        await page.mouse.up()
        const opened = await page.locator('.detail').getByRole('link', { name: 'where is it?' }).getAttribute('href')
        expect([round, opened]).toEqual([round, aimed])
        await page.keyboard.press('Escape')
        await page.mouse.move(0, 0)
        await page.getByRole('button', { name: /new$/ }).waitFor({ state: 'detached' })
      }
    } finally {
      clearInterval(sending)
    }
  })

  test('a list in which the keyboard is stands still, until its new events are asked for', async () => {
    const page = await openEvents()
    send(0, 3)
    await page.locator('.event-row').first().focus()
    send(3, 10)
    await page.getByRole('button', { name: '7 new' }).click()
    await page.locator('.event-row').nth(9).waitFor()
    send(10, 12)
    await page.locator('.event-row').nth(11).waitFor()
    expect(await page.getByRole('button', { name: /new$/ }).count()).toBe(0)
  })

  test('a row that is opened and closed at once does not hold the list', async () => {
    const page = await openEvents()
    send(0, 3)
    await page.locator('.event-row').nth(2).waitFor()
    await page.evaluate(`(async () => {
      const row = document.querySelector('.event-row')
      row.focus()
      row.click()
      await new Promise((done) => setTimeout(done))
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }))
    })()`)
    await page.locator('.detail').waitFor({ state: 'detached' })
    send(3, 5)
    await page.locator('.event-row').nth(4).waitFor()
    expect(await page.getByRole('button', { name: /new$/ }).count()).toBe(0)
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
    await expectShown(page, 'not stored')
    expect(await page.getByText('the client still has').count()).toBe(0)
    await page.locator('.groups li .spark').first().waitFor()
    expect(await textOf(page, '.groups li')).toMatch(/validation_failed[^]*shop[^]*SDK 2\.1\.0[^]*98,000/)
    const codes = await page.locator('.refusal-row .code').allInnerTexts()
    expect(new Set(codes)).toEqual(new Set(['validation_failed']))
  })

  test('a group names the versions of the SDK', async () => {
    const versions = ['2.0.1', '2.1.0', '1.9', null, '1.8']
    const groups = [groupOf(0, { sdk_versions: versions, count: 40 })]
    stage.double.answers.set('/api/refusals', () => ok({ refusals: [], groups }))
    const page = await open('/refused')
    await page.locator('.groups li').first().waitFor()
    expect(await page.locator('.groups li').allInnerTexts()).toEqual([
      expect.stringMatching(/SDK 2\.0\.1, 2\.1\.0, 1\.9 and 2 more[^]*40/),
    ])
  })

  test('a 503 says why in its group and in its row', async () => {
    const wish = { code: 'service_overloaded', reason: 'journal_full', message: 'cannot take this batch now' } as const
    const answer = { refusals: [refusalOf(0, wish)], groups: [groupOf(0, wish)] }
    stage.double.answers.set('/api/refusals', () => ok(answer))
    const page = await open('/refused')
    const words = OVERLOAD_ADVICE.journal_full.happened
    await page.locator('.refusal-row').first().waitFor()
    expect(await textOf(page, '.groups li')).toContain(words)
    expect(await textOf(page, '.refusal-row')).toContain(`journal_full: ${words}`)
    expect(stage.double.asked.filter(({ path }) => path === '/api/codes')).toHaveLength(1)
    expect(await page.getByText('cannot take this batch now').count()).toBe(0)
  })

  test('an X-Request-Id that is pasted shows its refusal, or that none is known', async () => {
    const wanted = refusalOf(7)
    const page = await open('/refused')
    await page.getByLabel('Filter').fill(wanted.request_id.toUpperCase())
    await page.waitForURL(`**/refused?request_id=${wanted.request_id}`)
    await eventually('it is alone', async () => (await page.locator('.refusal-row').count()) === 1)
    expect(await textOf(page, '.refusal-row')).toContain(wanted.request_id.slice(-8))
    expect(await page.locator('.groups').count()).toBe(0)
    const unknown = await open(`/refused?request_id=${BATCH_ID}`)
    await expectShown(unknown, 'No refusal with this X-Request-Id is known.')
    stage.double.send('/api/refusals/stream', 'refusal', refusalOf(1))
    stage.double.send('/api/refusals/stream', 'refusal', refusalOf(2, { request_id: BATCH_ID, app_id: 'just-now' }))
    await expectShown(unknown, 'just-now')
    expect(await unknown.locator('.refusal-row').count()).toBe(1)
  })

  test('a replay says that its events are not stored', async () => {
    const group = { app_id: 'shop', code: 'replayed_other_body', path: null, sdk_versions: [null], count: 2 }
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

  test('the list does not move under the pointer, until its new refusals are asked for', async () => {
    stage.double.answers.set('/api/refusals', () => ok({ refusals: [refusalOf(1), refusalOf(2)], groups: [] }))
    const page = await open('/refused')
    const row = page.locator('.refusal-row').nth(1)
    await row.hover()
    const place = await row.boundingBox()
    await eventually('the page listens', () => stage.double.listeners('/api/refusals/stream') === 1)
    const fresh = Array.from({ length: 1200 }, (_, at) => {
      return refusalOf(3 + at, { time: new Date(Date.UTC(2026, 10, 22, 15) + at).toISOString(), app_id: `late-${at}` })
    })
    for (const refusal of fresh) stage.double.send('/api/refusals/stream', 'refusal', refusal)
    const button = page.getByRole('button', { name: '1,000 new' })
    await button.waitFor()
    expect(await page.locator('.refusal-row').count()).toBe(2)
    expect(await row.boundingBox()).toEqual(place)
    await button.click()
    await expectShown(page, 'late-1199')
    stage.double.send(
      '/api/refusals/stream',
      'refusal',
      refusalOf(2000, { time: '2026-11-22T16:00:00.000Z', app_id: 'last' }),
    )
    await expectShown(page, 'last')
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
    await pageBox(page).fill(` ${BATCH_ID.toUpperCase()} `)
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

  test('app and key ask for both; not found says how far it looked, and goes on from there', async () => {
    const key = '7f0e0bb2-6c3a-4d5e-9a53-2a6a4d1c9a10'
    const page = await open('/batch')
    await pageBox(page).fill(`app:shop key:${key}`)
    await page.keyboard.press('Enter')
    await expectShown(page, 'Not found so far.')
    await expectShown(page, '2026-11-22 13:52:31 to 2026-11-22 14:02:31 UTC')
    await page.getByRole('link', { name: 'search further back' }).click()
    const before = '2026-11-22T13:52:31.001Z'
    await eventually('it asks before when', () =>
      stage.double.asked.some(
        ({ path, query }) => path === '/api/batches' && query['key'] === key && query['before'] === before,
      ),
    )
  })

  test('why one is absent cannot be known, and is said so', async () => {
    const spans = { searched_from: '2026-11-22T13:52:31.000Z', searched_to: '2026-11-22T14:02:31.000Z' }
    const missing = { found: false, ...spans, queue_reaches_back_to: null, go_on_before: null }
    stage.double.answers.set(`/api/batches/${BATCH_ID}`, () => ok({ ...missing, reason: 'absent' }))
    await expectShown(await open(`/batch?id=${BATCH_ID}`), 'possible reasons')
    stage.double.answers.set(`/api/batches/${BATCH_ID}`, () => ok({ ...missing, reason: 'empty' }))
    const page = await open(`/batch?id=${BATCH_ID}`)
    await expectShown(page, 'the queue is empty')
    expect(await page.getByText('possible reasons').count()).toBe(0)
  })

  test('the id of a refused request shows the refusal', async () => {
    const refusal = refusalOf(0, { code: 'validation_failed', app_id: 'shop', message: 'events[0].name: required' })
    stage.double.answers.set(`/api/batches/${BATCH_ID}`, () => ok({ found: true, refusal }))
    const page = await open(`/batch?id=${BATCH_ID}`)
    await expectShown(page, `Refused at ${refusal.time.slice(0, 19).replace('T', ' ')} UTC.`)
    await expectShown(page, 'events[0].name: required')
    expect(await textOf(page, '.refusal-row')).toMatch(/validation_failed[^]*shop/)
  })

  test('what is neither is said, and asks nothing', async () => {
    const page = await open('/batch')
    await pageBox(page).fill('shop')
    await page.keyboard.press('Enter')
    await expectShown(page, 'Write a batch id (a UUID), or an app id and an Idempotency-Key.')
    expect(stage.double.asked.some(({ path }) => path.startsWith('/api/batches'))).toBe(false)
  })

  test('a wrong question takes the answer to the one before it away', async () => {
    const page = await open(`/batch?id=${BATCH_ID}`)
    await expectShown(page, 'Stored, with 2 events of shop')
    await pageBox(page).fill('shop')
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

describe('the search box', () => {
  const found = (query: string, ...hits: object[]): void => {
    stage.double.answers.set('/api/search', (asked) => {
      const answer = { query, found: asked.query['q'] === query ? hits : [], searched_back_to: null, complete: true }
      return ok(answer)
    })
  }

  test('goes to the page of what an id is, from any page, by / and by Ctrl+K', async () => {
    const page = await open('/apps')
    const box = page.getByRole('searchbox', { name: 'Search', exact: true })
    const look = async (key: string, text: string, url: string): Promise<void> => {
      await page.keyboard.press(key)
      await page.locator('.search input:focus').waitFor()
      await box.fill(` ${text} `)
      await box.press('Enter')
      await page.waitForURL(url)
      await box.blur()
    }
    await box.waitFor()
    found(BATCH_ID, { kind: 'batch', batch_id: BATCH_ID })
    await look('/', BATCH_ID, `**/batch?id=${BATCH_ID}`)
    await expectShown(page, 'Stored, with 2 events of shop')
    const refusal = refusalOf(7)
    found(refusal.request_id, { kind: 'refusal', ...refusal })
    await look('Control+k', refusal.request_id, `**/refused?request_id=${refusal.request_id}`)
    const event = { kind: 'event', ...sampledEvent(4, { batch_id: BATCH_ID, index: 1 }) }
    found('shop key', { kind: 'user', ...sampledEvent(1) }, event)
    await look('Meta+k', 'shop key', `**/batch?id=${BATCH_ID}&event=1`)
    await page.locator('details').nth(1).locator('pre').waitFor()
    expect(await page.locator('details[open]').count()).toBe(1)
    // The search is no step of its own on the way back.
    await page.goBack()
    await page.waitForURL('**/refused?request_id=*')
  })

  test('takes its key from the moment that it is there', async () => {
    const page = await open('/apps')
    const press = `document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '/', bubbles: true }))`
    const content = `new MutationObserver((_, observer) => {
      if (document.querySelector('.search input') === null) return
      observer.disconnect()
      ${press}
    }).observe(document, { childList: true, subtree: true })`
    await page.addInitScript({ content })
    await page.reload()
    await page.locator('.search input').waitFor()
    expect(await page.locator('.search input:focus').count()).toBe(1)
  })

  test('keeps the focus that its key gives it right behind a link to another view', async () => {
    const page = await open('/apps')
    await page.locator('.search input').waitFor()
    await page.evaluate(`(async () => {
      document.querySelector('nav a[href="/explain"]').click()
      await new Promise((done) => setTimeout(done))
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '/', bubbles: true }))
    })()`)
    await page.evaluate(`new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))`)
    await page.evaluate(`new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))`)
    expect(await page.locator('.search input:focus').count()).toBe(1)
  })

  test('shows the events of a user, each with its batch', async () => {
    found('user-41', ...[3, 2, 1].map((number) => Object.assign({ kind: 'user' }, sampledEvent(number, { index: 5 }))))
    const page = await open('/search?q=user-41')
    await expectShown(page, 'user-41: the newest 3 events of this user')
    // A screen reader would read all of them out.
    expect(await page.locator('[aria-live] .event-row').count()).toBe(0)
    await page.locator('.event-row').nth(1).click()
    await page.waitForURL(`**/batch?id=${sampledEvent(2).batch_id}&event=5`)
  })

  test('leads by the arrows to each event of a user', async () => {
    found('user-41', ...[3, 2, 1].map((number) => Object.assign({ kind: 'user' }, sampledEvent(number, { index: 5 }))))
    const page = await open('/search?q=user-41')
    await page.locator('.event-row').first().focus()
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowUp', 'Enter']) await page.keyboard.press(key)
    await page.waitForURL('**/batch?**')
    expect(page.url()).toContain(`/batch?id=${sampledEvent(2).batch_id}&event=5`)
  })

  test('says what was not found, and how far it looked', async () => {
    const page = await open('/search?q=nobody')
    await expectShown(page, 'Nothing with the id nobody was found.')
    await expectShown(page, 'It is no batch, key, event or user that is stored')
    const partly = { query: 'x', found: [], searched_back_to: '2026-11-22T13:00:00.000Z', complete: false }
    stage.double.answers.set('/api/search', () => ok(partly))
    const words = 'Two seconds of reading came back to 2026-11-22 13:00:00 UTC, and did not reach what is older.'
    const older = { name: 'Look for an older batch' }
    const byUser = await open('/search?q=x')
    await expectShown(byUser, words)
    expect(await byUser.getByRole('link', older).count()).toBe(0)
    expect(await byUser.getByText('It is no batch').count()).toBe(0)
    const one = { ...partly, found: [{ kind: 'user', ...sampledEvent(1) }] }
    stage.double.answers.set('/api/search', () => ok(one))
    await expectShown(await open('/search?q=user-41'), words)
    stage.double.answers.set('/api/search', () => ok(partly))
    const byId = await open(`/search?q=${BATCH_ID}`)
    await expectShown(byId, words)
    await byId.getByRole('link', older).click()
    await byId.waitForURL(`**/batch?id=${BATCH_ID}`)
  })

  test('looks for the same text again', async () => {
    stage.double.answers.set('/api/search', () => ({ status: 503, body: { error: 'busy', message: 'others search' } }))
    const page = await open('/apps')
    const box = page.getByRole('searchbox', { name: 'Search', exact: true })
    await box.fill(BATCH_ID)
    await box.press('Enter')
    await expectShown(page, 'Others search.')
    found(BATCH_ID, { kind: 'batch', batch_id: BATCH_ID })
    await box.press('Enter')
    await page.waitForURL(`**/batch?id=${BATCH_ID}`)
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

  test('a forecast goes by the rate of the last minutes, and is none where that is not known', async () => {
    const month = { used: 0, limit: 3_600_000, resets_at: '2026-12-01T00:00:00.000Z', tolerance_percent: 0 }
    const day = { used: 200, limit: 1000, resets_at: '2026-11-23T00:00:00.000Z' }
    const apps = [
      appOf(1, { app_id: 'steady', day, month, events_per_second: 800 / (119 * 60) }),
      appOf(1, { app_id: 'fresh', day, month, events_per_second: null }),
      appOf(1, { app_id: 'busy', day, month, events_per_second: 40 }),
    ]
    stage.double.answers.set('/api/apps', () => ok({ apps, total_apps: 3, read_at: '2026-11-22T14:02:31.000Z' }))
    const page = await open('/apps?sort=name')
    await expectShown(page, '3 apps')
    const notes = (app: string) => page.locator('.app-row', { hasText: app }).locator('em').allInnerTexts()
    expect(await notes('busy')).toEqual(['over in 20 s at this rate', 'over in 25 h at this rate'])
    expect(await notes('fresh')).toEqual([])
    expect(await notes('steady')).toEqual(['over in 2 h at this rate'])
  })

  test('search as one types, and another order, are in the URL', async () => {
    const page = await open('/apps')
    await expectShown(page, '1,000 apps')
    await pageBox(page).fill('customer 77')
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
    await expectShown(page, 'Dry run: nothing is stored or counted.')
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
