// The console's views in a real Chromium, against a double of the admin API: what each shows, and that it is live.

import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import type { Now } from '../../src/console/web/api-types.ts'
import { OVERLOAD_ADVICE } from '../../src/contract/overload-advice.ts'
import {
  AN_HOUR_AGO,
  appOf,
  BATCH_ID,
  busyNow,
  foundBatch,
  groupOf,
  missingBatch,
  refusalOf,
  sampledEvent,
} from '../support/console-data.ts'
import { ok } from '../support/console-double.ts'
import { expectShown } from '../support/console-page.ts'
import { consoleStage } from '../support/console-stage.ts'
import { eventually } from '../support/service.ts'

const stage = consoleStage()
const { open } = stage

/** The one of the page, not that of the header. */
const pageBox = (page: Page) => page.getByRole('main').getByRole('textbox')
const textOf = (page: Page, selector: string): Promise<string> => page.locator(selector).first().innerText()
const rowsOf = (page: Page) => page.locator('.rows a.item')

describe('Now', () => {
  test('says that all is well, and what is rejected, with the figures of each family of answers', async () => {
    const page = await open('/')
    await expectShown(page, 'Healthy. 37 requests/s rejected, most by validation.')
    await page.locator('.plot svg path').first().waitFor({ state: 'attached' })
    expect((await page.locator('.figure').allInnerTexts()).slice(1)).toEqual([
      '1,005 requests/s',
      '31 /s',
      '6 /s',
      '0 /s',
      '2.1 ms',
      '6.1 ms',
    ])
    const parts = page.getByRole('region', { name: 'What it is made of' }).locator('.item')
    expect((await parts.allInnerTexts()).map((text) => text.replace(/\s+/g, ' '))).toEqual(
      [
        'Queue NATS JetStream, oldest 51 h of 72 h 41 GiB of 90 GiB, full in 9 days',
        'Rate limits in Redis 0.4 ms',
        'App records in NATS ',
        'Audit audit of the limits 6 s behind',
        'Memory bodies on their way to the queue 1.9 MiB of 64 MiB',
        'Consumers warehouse 1.4 s behind · audit-log has read all 2 of 2 reading',
      ].map((text) => text.trimEnd()),
    )
  })

  test('shows the values of a moment under the pointer, in both plots, and as a table', async () => {
    const page = await open('/')
    await page
      .locator('.plot .area')
      .first()
      .hover({ position: { x: 200, y: 60 } })
    await page.locator('.tip').nth(1).waitFor()
    expect(await textOf(page, '.tip')).toMatch(/13:5\d:\d\d UTC[^]*Accepted[^]*Client errors[^]*Limits[^]*503[^]*0\/s/)
    const table = page.getByRole('table', { name: 'Requests a second in the last 15 min' })
    expect(await table.locator('tr').count()).toBe(13)
    await page.mouse.move(0, 0)
    await page.locator('.tip').first().waitFor({ state: 'detached' })
  })

  test('shows plots of an hour and of a day', async () => {
    const page = await open('/')
    const { history } = busyNow()
    stage.double.answers.set('/api/now', () =>
      ok({ ...busyNow(), history: { ...(history as object), step_seconds: 480 } }),
    )
    await page.getByRole('button', { name: '24 h' }).click()
    await page.getByRole('figure', { name: 'Requests a second in the last 24 h' }).waitFor()
    expect(stage.double.asked.findLast(({ path }) => path === '/api/now')).toMatchObject({ query: { range: '24h' } })
    expect(new URL(page.url()).search).toBe('?range=24h')
    await page.reload()
    await page.getByRole('figure', { name: 'Requests a second in the last 24 h' }).waitFor()
  })

  test('leaves out who reads where there are no consumers', async () => {
    const queue = busyNow()['queue'] as object
    stage.double.now = { ...busyNow(), queue: { ...queue, consumers: [] } }
    const page = await open('/')
    await expectShown(page, 'Rate limits')
    expect(await page.getByText('Consumers').count()).toBe(0)
  })

  test('shows what a 202 survives, as a warning where something should be mended', async () => {
    const said = 'a 202 survives: a kill of any server; one replica of SLUICE_EVENTS'
    const durability = { part: 'durability', kind: 'durability', state: 'warn', reason: null, up: true, text: said }
    const parts = [...(busyNow()['parts'] as object[]), { ...durability, node: null, latency_seconds: null }]
    stage.double.now = { ...busyNow(), parts }
    const page = await open('/')
    await expectShown(page, said)
    expect(await page.locator('.said.near', { hasText: said }).count()).toBe(1)
    await expectShown(page, 'Healthy')
  })

  test.each([
    ['Redis away', 'degraded', 'Redis away for 12 s', {}, 'Degraded: Redis away for 12 s'],
    ['NATS away', 'refusing', 'NATS away for 12 s', { nats_away: 900 }, 'Refusing 900 requests/s: NATS away for 12 s'],
    ['a full journal', 'refusing', 'journal full for 5 s', { journal_full: 0 }, 'Refusing: journal full for 5 s'],
    ['a full ring', 'refusing', 'ring full', { ring_full: 9.8 }, 'Refusing 9.8 requests/s: ring full'],
    ['a start', 'starting', 'connecting to NATS for 2 s', {}, 'Starting: connecting to NATS for 2 s'],
    ['a stop', 'stopping', null, { stopping: 3 }, 'Stopping'],
  ] as const)('%s is the same in the pill of the header and in the sentence', async (_, state, why, of, text) => {
    const reasons = Object.entries<number>(of).map(([reason, per_second]) => ({ reason, per_second }))
    const ours = reasons.reduce((sum, { per_second: rate }) => sum + rate, 0)
    const rates = { ...(busyNow()['rates'] as Now['rates']), refused_per_second: { service_overloaded: ours } }
    stage.double.now = busyNow({ state, state_reason: why, reasons, rates })
    const page = await open('/')
    await expectShown(page, text)
    expect(text.startsWith(await textOf(page, '.pill.state'))).toBe(true)
    expect(await textOf(page, '.verdict')).toMatch(new RegExp(`^${text}\\.`))
    const todo = OVERLOAD_ADVICE[reasons[0]?.reason as keyof typeof OVERLOAD_ADVICE]?.todo
    expect((await page.locator('.note.fail').allInnerTexts()).join().replaceAll(/\n|=\d+/g, '')).toBe(
      state === 'refusing' ? `To do: ${todo}.${(todo.match(/SLUICE_[A-Z_]+/g) ?? []).join('')}` : '',
    )
    expect(await page.locator('.verdict .fail').count()).toBe(state === 'refusing' ? 1 : 0)
  })

  test('a setting that helps has a value to copy: twice the room, or half of the time', async () => {
    const reasons = [{ reason: 'journal_full', per_second: 9 }]
    const { queue } = busyNow() as unknown as { queue: object }
    const kept = { ...queue, kind: 'journal', max_bytes: 10_737_418_240, oldest_seconds: 90_000 } as Now['queue']
    const refusing = (state: 'full' | 'disk_full') => {
      const journal = { part: 'queue', kind: 'journal', state, reason: null, up: false, node: null, text: '' } as const
      const parts = [{ ...journal, latency_seconds: null }]
      return busyNow({ state: 'refusing', state_reason: 'journal full', reasons, queue: kept, parts })
    }
    stage.double.now = refusing('full')
    const page = await open('/')
    await expectShown(page, 'SLUICE_JOURNAL_MAX_MB=20480')
    await expectShown(page, 'SLUICE_JOURNAL_KEEP_HOURS=12')
    // What bounds it then is not the setting.
    stage.double.now = refusing('disk_full')
    await expectShown(page, /^SLUICE_JOURNAL_MAX_MB$/)
  })

  test('without a connection it does not say that all is well', async () => {
    const page = await open('/')
    await expectShown(page, 'Healthy')
    stage.double.goAway()
    await expectShown(page, /^It was Healthy at \d\d:\d\d:\d\d UTC\.$/)
    expect(await textOf(page, '.pill.state')).toBe('Not connected')
    expect(await textOf(page, '.verdict .figure')).toBe('Not connected.')
  })

  test('a cause of the last hour leads to Refused with it opened, and an app near its limit to its page', async () => {
    const page = await open('/')
    await page.getByRole('region', { name: 'Refused most' }).locator('a.item').nth(1).click()
    await page.waitForURL('**/refused?cause=*')
    await page.getByRole('heading', { name: 'Body is not JSON' }).waitFor()
    await page.goBack()
    await page.getByRole('region', { name: 'Nearest to a limit' }).locator('a.item').first().click()
    await page.waitForURL('**/app?id=shop')
    expect(await page.title()).toBe('shop · sluice')
  })

  test('is healthy now where 503s of the last hour are over, and names the start of a node that is younger', async () => {
    const overloaded = { code: 'service_overloaded', reason: 'nats_slow', path: null }
    const groups = [
      groupOf(0, { ...overloaded, count: 2 }),
      groupOf(1, { ...overloaded, reason: 'nats_away', count: 1 }),
    ]
    stage.double.answers.set('/api/refusals', () => ok({ since: AN_HOUR_AGO, refusals: [], groups }))
    const page = await open('/')
    await expectShown(page, 'Healthy now.')
    await expectShown(page, '3 requests got 503 in the last hour.')
    const since = new Date(Date.now() - 1_200_000).toISOString()
    const words = `since ${since.slice(11, 16)} UTC`
    stage.double.answers.set('/api/refusals', () => ok({ since, refusals: [], groups }))
    await page.reload()
    await expectShown(page, `3 requests got 503 ${words}.`)
    for (const path of ['/', '/refused', '/app?id=shop']) {
      const full = await open(path)
      await full.getByText(words).first().waitFor()
      expect(await full.locator('main').innerText()).not.toContain('last hour')
    }
    stage.double.answers.set('/api/refusals', () => ok({ since, refusals: [], groups: [] }))
    await page.reload()
    await expectShown(page, `Nothing was rejected ${words}.`)
    await expectShown(page, `Nothing was refused ${words}`)
  })

  test('names a cause as Refused does, and says once of what was refused once', async () => {
    const page = await open('/')
    const first = page.getByRole('region', { name: 'Refused most' }).locator('a.item').first()
    expect(await first.innerText()).toMatch(/^400\s+context\.os is missing/)
    await expectShown(page.locator('.verdict'), /context\.os is missing from shop, 9,800 times since 13:04 UTC\.$/)
    const groups = [groupOf(0, { count: 1 })]
    stage.double.answers.set('/api/refusals', () => ok({ since: AN_HOUR_AGO, refusals: [], groups }))
    await expectShown(page.locator('.verdict'), /from shop, once, at 13:04 UTC\.$/)
  })

  test('names the node that is silent, and since when', async () => {
    const nodes = busyNow()['nodes'] as object[]
    stage.double.now = busyNow({ state: 'degraded', state_reason: '1 of 2 nodes does not answer' })
    stage.double.now = { ...stage.double.now, nodes: [nodes[0], { ...nodes[1], state: 'silent', silent_seconds: 42 }] }
    const page = await open('/')
    await expectShown(page, 'silent for 42 s')
    await expectShown(page, '1 node, 1 silent')
    await expectShown(page, 'Degraded: 1 of 2 nodes does not answer.')
  })

  test('a service that has had no event yet shows how to send one, in three languages', async () => {
    stage.double.now = busyNow({
      rates: { requests_per_second: 0, events_accepted_per_second: 0, refused_per_second: {}, replays_per_second: 0 },
      latency_seconds: null,
    })
    stage.double.answers.set('/api/refusals', () => ok({ since: AN_HOUR_AGO, refusals: [], groups: [] }))
    const page = await open('/')
    await expectShown(page, 'Nothing was refused')
    await expectShown(page, 'curl -i https://127.0.0.1:8443/api/v1/events')
    await page.getByRole('button', { name: 'TypeScript' }).click()
    await expectShown(page, "appKey: 'ak_demo_1'")
    await page.reload()
    await expectShown(page, "appKey: 'ak_demo_1'")
    await page.getByRole('button', { name: 'Python' }).click()
    await expectShown(page, '"https://127.0.0.1:8443/api/v1/events"')
  })
})

describe('Events', () => {
  const nothing = { events: [], searched_back_to: null, complete: true, skipped: 0 }
  const send = (from: number, to: number): void => {
    for (let number = from; number < to; number++)
      stage.double.send('/api/events/stream', 'event', sampledEvent(number))
  }
  /** Without any stored ones, but for a first one from which the list begins. */
  async function openEvents(query = '', stored = [sampledEvent(0)]): Promise<Page> {
    stage.double.answers.set('/api/events', () => ok({ ...nothing, events: stored }))
    const page = await open(`/events${query}`)
    await eventually('the page listens', () => stage.double.listeners('/api/events/stream') === 1)
    return page
  }

  test('shows events as they come, newest batch first, and how many of how many', async () => {
    const page = await openEvents()
    send(3, 6)
    await rowsOf(page).nth(3).waitFor()
    send(6, 7)
    await eventually('the next batch is on top', async () => (await textOf(page, '.rows a.item')).includes('cart_add'))
    stage.double.send('/api/events/stream', 'rate', { seen_per_second: 12_480, shown_per_second: 50 })
    await expectShown(page, '50 of 12,480 events/s')
  })

  test('the events of a batch stand under one line, with a preview and the user of each', async () => {
    const page = await openEvents()
    send(3, 6)
    await rowsOf(page).nth(3).waitFor()
    expect(
      (await page.locator('.rows > li').allInnerTexts()).slice(0, 4).map((text) => text.replace(/\s+/g, ' ')),
    ).toEqual([
      expect.stringMatching(/news-reader-for-tablets SDK ios 2.0.4 · macOS 26.1 3 events 019a9b0f…01$/),
      'track search query_length=14 results=38 cold_start=false user-7835',
      "screen Home plan=yearly trial=true source=friend's link user-7835",
      'revenue subscription_renewed amount=53.65 currency=EUR sku=TR-0417 width=390 list=search user-7835',
    ])
    expect(await page.locator('.list .head').innerText()).toMatch(/Type\s+Name\s+Properties\s+User/)
  })

  test('begins with what is stored, then goes on, each event once and by its time', async () => {
    const stored = Array.from({ length: 198 }, (_, at) => sampledEvent(197 - at, { node: null }))
    const page = await openEvents('?app=shop', stored)
    const first = page.locator('.rows > li').first()
    // 198 events in 66 batches.
    await eventually('the stored ones are there', async () => (await first.getAttribute('aria-setsize')) === '264')
    expect(stage.double.asked.find(({ path }) => path === '/api/events')?.query).toEqual({ app: 'shop' })
    send(195, 201)
    await eventually('one batch is new', async () => (await first.getAttribute('aria-setsize')) === '268')
    for (const [at, number] of [198, 199, 200, 195, 196].entries()) {
      const { batch_id: id, index } = sampledEvent(number)
      expect(await rowsOf(page).nth(at).getAttribute('href')).toContain(encodeURIComponent(`${id}:${index}`))
    }
  })

  test('after a lost connection it reads again, and leaves out what lies before a gap', async () => {
    const page = await openEvents()
    send(3, 6)
    await rowsOf(page).nth(3).waitFor()
    stage.double.answers.set('/api/events', () => ok({ ...nothing, events: [sampledEvent(402), sampledEvent(401)] }))
    stage.double.goAway()
    await expectShown(page, 'No connection to')
    stage.double.goAway(false)
    await page.getByRole('button', { name: 'Try now' }).click()
    await eventually('only the two are there', async () => (await rowsOf(page).count()) === 2)
  })

  test('says that no event is stored only where none is, and says so when the first one comes', async () => {
    const { answers } = stage.double
    let status = 503
    answers.set('/api/events', () =>
      status === 503 ? { status, body: { error: 'busy', message: 'others ask the same of this node' } } : ok(nothing),
    )
    const page = await open('/events')
    await expectShown(page, 'Others ask the same of this node.')
    expect(await page.getByText('No event is stored yet').count()).toBe(0)
    status = 200
    await expectShown(page, 'No event is stored yet')
    await expectShown(page, 'Waiting for the first event…')
    await expectShown(page, 'curl -i https://127.0.0.1:8443/api/v1/events')
    send(0, 1)
    await expectShown(page, 'Got it: track checkout_started is stored.')
    answers.set('/api/events', () => ok({ ...nothing, searched_back_to: '2026-11-22T13:00:00.000Z', complete: false }))
    await expectShown(await open('/events?app=shop'), 'came back to 2026-11-22 13:00:00 UTC: older ones may fit.')
  })

  test('the row under the pointer is the row that is clicked, at 30 events a second', async () => {
    const page = await openEvents()
    let sent = 60
    send(3, sent)
    const row = rowsOf(page).nth(5)
    await row.waitFor()
    const { x, y } = await row.evaluate((element) => element.getBoundingClientRect())
    const sending = setInterval(() => send(sent, ++sent), 33)
    try {
      for (let round = 0; round < 12; round++) {
        await page.mouse.move(x + 100, y + 10)
        // It may be the line of a batch; below it is an event.
        if ((await page.locator('a.item:hover').count()) === 0) await page.mouse.move(x + 100, y + 38)
        const aimed = await page.locator('a.item:hover').getAttribute('href')
        await page.getByRole('button', { name: /^\d{2,} new$/ }).waitFor()
        await page.mouse.down()
        await page.mouse.up()
        await page.locator('.detail').waitFor()
        expect([round, new URL(page.url()).search]).toEqual([round, aimed?.slice('/events'.length)])
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
    send(3, 6)
    await rowsOf(page).nth(3).waitFor()
    await rowsOf(page).first().focus()
    send(6, 13)
    await page.getByRole('button', { name: '7 new' }).click()
    await rowsOf(page).nth(10).waitFor()
    send(13, 15)
    await rowsOf(page).nth(12).waitFor()
    expect(await page.getByRole('button', { name: /new$/ }).count()).toBe(0)
  })

  test('a filter goes into the URL, and from the URL to the stream; a wrong one says the likeliest right one', async () => {
    const page = await openEvents()
    await page.getByLabel('Filter').fill('app:shop name:check*')
    await page.waitForURL('**/events?app=shop&name=check*')
    await eventually('the stream has it', () => stage.double.listeners('/api/events/stream?app=shop&name=check*') === 1)
    await page.getByRole('button', { name: 'revenue' }).click()
    await page.waitForURL('**/events?app=shop&name=check*&type=revenue')
    await page.reload()
    expect(await page.getByLabel('Filter').inputValue()).toBe('app:shop type:revenue name:check*')
    const listTop = async () => (await page.locator('.rows').boundingBox())?.y
    const before = await listTop()
    await page.getByLabel('Filter').fill('color:red')
    await expectShown(page, 'color:red is not a filter: write app:… type:… user:… name:….')
    expect(await listTop()).toBe(before)
    await page.getByLabel('Filter').fill('signup')
    await expectShown(page, 'Did you mean name:signup?')
  })

  test('what comes is read out to a screen reader as a count, each ten seconds at most', async () => {
    const page = await openEvents()
    for (let number = 300; number < 303; number++)
      stage.double.send('/api/events/stream', 'event', sampledEvent(number))
    const status = page.locator('main [role=status]', { hasText: 'new' })
    await eventually('they are counted', async () => (await status.count()) === 1, 15_000)
    expect(await status.innerText()).toBe('3 new events')
  })

  test('the space bar pauses, which is in the URL, and what came meanwhile is counted', async () => {
    const page = await openEvents()
    send(3, 6)
    await rowsOf(page).nth(3).waitFor()
    await page.locator('body').press(' ')
    await page.waitForURL('**/events?paused=1')
    send(6, 13)
    await expectShown(page, '7 new')
    expect(await rowsOf(page).count()).toBe(4)
    await page.locator('body').press(' ')
    await rowsOf(page).nth(10).waitFor()
    await page.getByLabel('Filter').press(' ')
    expect(await page.getByRole('button', { name: /Pause/ }).getAttribute('aria-pressed')).toBe('false')
  })

  test.each([1400, 800])('a list that is scrolled stands still, and counts what has come, at %i px', async (width) => {
    stage.double.answers.set('/api/events', () => ok({ ...nothing, events: [sampledEvent(0)] }))
    const page = await open('/events', { viewport: { width, height: 800 } })
    await eventually('the page listens', () => stage.double.listeners('/api/events/stream') === 1)
    send(3, 120)
    // 118 events, one of which was there before, below the lines of their 40 batches: one that comes later would count as new.
    const rows = page.locator('.rows > li')
    await eventually('all are listed', async () => (await rows.first().getAttribute('aria-setsize')) === '158')
    // Where there is room, the list scrolls in the page.
    const list = `(${width} > 860 ? document.querySelector('.scroll') : document.scrollingElement)`
    await page.evaluate(`${list}.scrollTo(0, 900)`)
    await eventually('later rows are shown', async () => Number(await rows.first().getAttribute('aria-posinset')) > 5)
    const hrefs = (): Promise<(string | null)[]> =>
      rowsOf(page).evaluateAll((all) => all.map((row) => row.getAttribute('href')))
    const before = await hrefs()
    send(120, 248)
    await page.getByRole('button', { name: '128 new' }).waitFor()
    expect(await hrefs()).toEqual(before)
    await page.getByRole('button', { name: '128 new' }).click()
    await eventually('it is at the top', async () => (await page.evaluate<number>(`${list}.scrollTop`)) === 0)
    await page.getByText('128 new').waitFor({ state: 'detached' })
  })

  test('a number that a browser would round is shown as it was sent', async () => {
    const page = await openEvents()
    const event = { name: 'large', properties: { order: 'NUMBER' } }
    const text = JSON.stringify(sampledEvent(3, { event })).replace('"NUMBER"', '12345678901234567890.10')
    stage.double.sendText('/api/events/stream', 'event', text)
    await rowsOf(page).nth(1).waitFor()
    expect(await rowsOf(page).first().innerText()).toContain('order=12345678901234567890.10')
    await rowsOf(page).first().click()
    await expectShown(page.locator('.detail'), /"order": 12345678901234567890\.10/)
  })

  test('an event opens in full beside the list, headed by its name, with an address, to copy', async () => {
    const page = await open('/events', { permissions: ['clipboard-read', 'clipboard-write'] })
    await rowsOf(page).nth(2).click()
    await page.locator('.detail pre').waitFor()
    const { event, batch_id: id } = sampledEvent(239)
    await page.getByRole('heading', { name: 'Lobby' }).waitFor()
    expect(JSON.parse(await textOf(page, '.detail pre'))).toEqual(event)
    await page.getByRole('button', { name: 'Copy JSON' }).click()
    const copied = (): Promise<string> => page.evaluate<string>('navigator.clipboard.readText()')
    await eventually('JSON is copied', async () => (await copied()).startsWith('{'))
    expect(JSON.parse(await copied())).toEqual(event)
    await page.getByRole('button', { name: 'Copy curl' }).click()
    await eventually('a curl line is copied', async () => (await copied()).startsWith('curl -i'))
    await page.getByRole('button', { name: 'Copy link' }).click()
    await eventually('its address is copied', async () => (await copied()) === page.url())
    expect(page.url()).toContain(`event=${encodeURIComponent(`${id}:2`)}`)
    await page.goBack()
    await page.locator('.detail').waitFor({ state: 'detached' })
  })

  test('a link to an event that has left the list reads it from its batch, or says that it is not held', async () => {
    const page = await openEvents(`?event=${BATCH_ID}:1`)
    await page.getByRole('heading', { name: 'Home' }).waitFor()
    stage.double.answers.set(`/api/batches/${BATCH_ID}`, () => ok(missingBatch()))
    await page.reload()
    await expectShown(page, 'This event is not held any more')
    await page.getByRole('link', { name: 'Look for its batch' }).click()
    await page.waitForURL(`**/batch?id=${BATCH_ID}`)
  })

  test('a thousand events a second are drawn at most four times a second, few of them in the document', async () => {
    const page = await openEvents()
    await page.locator('.rows > li').first().waitFor()
    await page.evaluate(`{
      window.drawn = 0
      const counted = { childList: true, subtree: true, characterData: true }
      new MutationObserver(() => window.drawn++).observe(document.querySelector('.rows'), counted)
    }`)
    const sending = setInterval(() => {
      for (let more = 0; more < 20; more++) stage.double.send('/api/events/stream', 'event', sampledEvent(next++))
    }, 20)
    let next = 3
    try {
      const startedMs = performance.now()
      await eventually('the list is full', async () => next > 3000)
      const drawn = await page.evaluate<number>('window.drawn')
      // What is drawn goes by the time, and ages tick each second.
      expect(drawn).toBeLessThanOrEqual(((performance.now() - startedMs) / 1000) * 5 + 2)
      expect(drawn).toBeGreaterThan(0)
      expect(await page.locator('.rows > li').count()).toBeLessThan(80)
      const size = Number(await page.locator('.rows > li').first().getAttribute('aria-setsize'))
      expect(size).toBeGreaterThan(500)
      expect(size).toBeLessThan(700)
    } finally {
      clearInterval(sending)
    }
  })
})

describe('Refused', () => {
  test('causes by count, the first one opened beside them with what to change', async () => {
    const page = await open('/refused')
    await rowsOf(page).first().waitFor()
    expect((await rowsOf(page).first().innerText()).replace(/\s+/g, ' ')).toMatch(
      /^400 context.os is missing shop SDK ios 2\.0\.4, ios 2\.0\.3 9,800/,
    )
    await expectShown(page, 'Send context.os: it is required.')
    await expectShown(page, 'The batch does not fit the schema. Sent again as it is, it is refused again.')
    expect(await page.getByText('the client still has').count()).toBe(0)
    await rowsOf(page).nth(3).click()
    await page.waitForURL('**/refused?cause=*')
    await page.getByRole('heading', { name: 'Subscription is not active' }).waitFor()
    await page.reload()
    await page.getByRole('heading', { name: 'Subscription is not active' }).waitFor()
    await page.goBack()
    await page.getByRole('heading', { name: 'context.os is missing' }).waitFor()
  })

  test('a cause has its versions of the SDK, and its newest requests', async () => {
    const page = await open('/refused')
    const panel = page.getByRole('region', { name: 'The opened cause' })
    await expectShown(panel, /Newest \d+ requests/)
    expect(await panel.locator('.facts, .grid').allInnerTexts()).toContainEqual(
      expect.stringMatching(/ios 2\.0\.4[^]*%/),
    )
    expect(await panel.locator('.rows .item').first().innerText()).toContain('events[3].context.os')
    await expectShown(panel, 'What was sent, type and length only')
    await expectShown(panel, /^absent$/)
  })

  test('a 503 says why, and what to do', async () => {
    const wish = { code: 'service_overloaded', reason: 'journal_full', message: 'cannot take this batch now' } as const
    const answer = {
      since: AN_HOUR_AGO,
      refusals: [refusalOf(0, { ...wish, path: null })],
      groups: [groupOf(0, { ...wish, path: null })],
    }
    stage.double.answers.set('/api/refusals', () => ok(answer))
    const page = await open('/refused')
    await page.getByRole('heading', { name: 'Journal full' }).waitFor()
    const { happened, todo } = OVERLOAD_ADVICE.journal_full
    await expectShown(page, `${happened[0].toUpperCase()}${happened.slice(1)}. To do: ${todo}.`)
    expect(await page.locator('.rows .pill.fail').innerText()).toBe('503')
    const away = groupOf(0, { ...wish, reason: 'nats_away', path: null })
    stage.double.answers.set('/api/refusals', () => ok({ ...answer, groups: [away] }))
    await page.getByRole('heading', { name: 'NATS away' }).waitFor()
  })

  test('an origin that may not send is named', async () => {
    const origin = 'https://staging.example.com'
    const group = groupOf(0, { code: 'method_not_allowed', path: null, origin })
    stage.double.answers.set('/api/refusals', () => ok({ since: AN_HOUR_AGO, refusals: [], groups: [group] }))
    const page = await open('/refused')
    await page.getByRole('heading', { name: 'Origin may not send' }).waitFor()
    await expectShown(page, `Allow ${origin} (SLUICE_CORS_ORIGINS, or the origins of the app) if its pages may send.`)
  })

  test('an address with an X-Request-Id leads to the page of that id', async () => {
    const page = await open(`/refused?request_id=${BATCH_ID}`)
    await page.waitForURL(`**/batch?id=${BATCH_ID}`)
    expect(await page.title()).toBe('Batch · sluice')
  })

  test('a replay with another body is not a refusal, and has a list of its own', async () => {
    const groups = [groupOf(0), groupOf(1, { code: 'replayed_other_body', path: null, count: 41 })]
    stage.double.answers.set('/api/refusals', () => ok({ since: AN_HOUR_AGO, refusals: [], groups }))
    const page = await open('/refused')
    await page.getByRole('button', { name: 'Refused 9,800' }).waitFor()
    expect(await rowsOf(page).count()).toBe(1)
    await page.getByRole('button', { name: 'Replays with another body 41' }).click()
    await expectShown(page, 'the events of the second body are not stored')
  })

  test('a filter that nothing fits does not say that every request was taken', async () => {
    stage.double.answers.set('/api/refusals', () => ok({ since: AN_HOUR_AGO, refusals: [], groups: [] }))
    const page = await open('/refused?app=shop')
    await expectShown(page, 'Nothing that fits was refused in the last hour')
    expect(await page.getByText('Every request was taken.').count()).toBe(0)
  })

  test('a refusal appears as it happens, once', async () => {
    const group = groupOf(0)
    stage.double.answers.set('/api/refusals', () =>
      ok({ since: AN_HOUR_AGO, refusals: [refusalOf(0)], groups: [group] }),
    )
    const page = await open('/refused')
    const own = page.getByRole('region', { name: 'The opened cause' }).locator('.rows .item')
    await own.first().waitFor()
    await eventually('the page listens', () => stage.double.listeners('/api/refusals/stream') === 1)
    const fresh = refusalOf(0, { time: '2026-11-22T15:00:00.000Z', request_id: BATCH_ID })
    stage.double.send('/api/refusals/stream', 'refusal', fresh)
    stage.double.send('/api/refusals/stream', 'refusal', fresh)
    await eventually('it is there', async () => (await own.count()) === 2)
  })

  test('the order of the causes does not change under the pointer, but their counts do', async () => {
    const groups = [groupOf(0, { count: 20 }), groupOf(1, { count: 10 })]
    stage.double.answers.set('/api/refusals', () => ok({ since: AN_HOUR_AGO, refusals: [], groups }))
    const page = await open('/refused')
    await rowsOf(page).nth(1).hover()
    groups[1] = groupOf(1, { count: 700 })
    groups.reverse()
    await expectShown(page, '700')
    expect(await rowsOf(page).first().innerText()).toContain('context.os')
    await page.mouse.move(0, 0)
    await eventually('then it does', async () => (await rowsOf(page).first().innerText()).includes('Body is not JSON'))
  })

  test('1,000 refusals of a cause: few in the document, all by scrolling, and to download', async () => {
    const refusals = Array.from({ length: 1000 }, (_, at) => {
      const time = new Date(Date.parse('2026-11-22T14:00:00.000Z') - at * 10).toISOString()
      return refusalOf(0, { time, request_id: `${String(at).padStart(8, '0')}-aaaa` })
    })
    stage.double.answers.set('/api/refusals', () => ok({ refusals, groups: [groupOf(0)] }))
    const page = await open('/refused')
    const own = page.getByRole('region', { name: 'The opened cause' }).locator('.rows > li')
    await eventually('they are there', async () => (await own.first().getAttribute('aria-setsize')) === '1000')
    expect(await own.count()).toBeLessThan(70)
    await page.evaluate('scrollTo(0, document.body.scrollHeight)')
    await expectShown(page, '00000999…aa')
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'NDJSON' }).click(),
    ])
    expect(download.suggestedFilename()).toBe('refusals.ndjson')
    const lines = (await readFile(await download.path(), 'utf8')).trim().split('\n')
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual(refusals)
  })
})

describe('Batch', () => {
  test('an id is found: a sentence, a line of time, and its events', async () => {
    const page = await open('/batch')
    await pageBox(page).fill(` ${BATCH_ID.toUpperCase()} `)
    await page.getByRole('button', { name: 'Find', exact: true }).click()
    await expectShown(page, 'Stored, read by warehouse, not yet by audit-log.')
    expect(page.url()).toBe(`${stage.double.url}/batch?id=${BATCH_ID}`)
    expect((await page.locator('.way li').allInnerTexts()).map((text) => text.replace(/\s+/g, ' '))).toEqual([
      'Received 14:01:22.120 trace 4bf92f35',
      'Stored 14:01:22.133, +13 ms SLUICE_EVENTS 8,120,441, sluice.events.7',
      'Read 14:01:23.004 warehouse',
      'Not yet read audit-log',
    ])
    const events = page.getByRole('region', { name: 'Events' }).locator('a.item')
    expect(await events.count()).toBe(2)
    await events.nth(1).click()
    await page.waitForURL(`**/batch?id=${BATCH_ID}&event=1`)
    await page.getByLabel('Event 1 as JSON').waitFor()
  })

  test('app and key ask for both; not found says how far it looked, and goes on from there', async () => {
    const key = '7f0e0bb2-6c3a-4d5e-9a53-2a6a4d1c9a10'
    const page = await open('/batch')
    await pageBox(page).fill(`app:shop key:${key}`)
    await page.keyboard.press('Enter')
    await expectShown(page, 'Not found so far.')
    await expectShown(page, '2026-11-22 13:52:31 to 2026-11-22 14:02:31 UTC')
    await page.getByRole('link', { name: 'Search further back' }).click()
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
    await expectShown(await open(`/batch?id=${BATCH_ID}`), 'Possible reasons')
    stage.double.answers.set(`/api/batches/${BATCH_ID}`, () => ok({ ...missing, reason: 'empty' }))
    const page = await open(`/batch?id=${BATCH_ID}`)
    await expectShown(page, 'The queue is empty')
    expect(await page.getByText('Possible reasons').count()).toBe(0)
  })

  test('the id of a refused request shows the refusal', async () => {
    const refusal = refusalOf(0, { code: 'validation_failed', app_id: 'shop', message: 'events[0].name: required' })
    stage.double.answers.set(`/api/batches/${BATCH_ID}`, () => ok({ found: true, refusal }))
    const page = await open(`/batch?id=${BATCH_ID}`)
    await expectShown(page, 'This request was refused, so no batch has this id.')
    await expectShown(page, `of ${refusal.time.slice(0, 19).replace('T', ' ')} UTC`)
    await expectShown(page, 'events[0].name: required')
    expect(await textOf(page, '.facts')).toMatch(/400[^]*validation_failed[^]*shop/)
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
    await expectShown(page, 'Stored, read by warehouse')
    await pageBox(page).fill('shop')
    await page.keyboard.press('Enter')
    await expectShown(page, 'Write a batch id (a UUID), or an app id and an Idempotency-Key.')
    expect(await page.getByText('Stored, read by warehouse').count()).toBe(0)
  })

  test('a batch of the journal says where in it', async () => {
    const place = { kind: 'journal', segment: '00000012.ndjson', offset_bytes: 1_048_576, length_bytes: 512 }
    stage.double.answers.set(`/api/batches/${BATCH_ID}`, () => ok(foundBatch({ place, consumers: [] })))
    const page = await open(`/batch?id=${BATCH_ID}`)
    await expectShown(page, 'byte 1,048,576 of 00000012.ndjson')
    await expectShown(page, 'Who has read it is not known: a journal has no consumers.')
  })

  test('a spool is a stop on the line of time, while a batch waits there and after it was sent on', async () => {
    const stops = async (page: Page): Promise<string> => (await page.locator('.way > li').allInnerTexts()).join(' | ')
    const file = { folder: '/spool/a', segment: '000000000001.ndjson', offset_bytes: 512, length_bytes: 300 }
    const waiting = { kind: 'spool', since: '2026-11-22T14:01:22.120Z', ...file }
    stage.double.answers.set(`/api/batches/${BATCH_ID}`, () => ok(foundBatch({ place: waiting, consumers: [] })))
    const page = await open(`/batch?id=${BATCH_ID}`)
    await expectShown(page, 'On the disk of this node, not in the stream yet.')
    expect(await stops(page)).toMatch(/^Received[^|]*\| Spooled[^|]*in the spool \/spool\/a \| Not yet in the stream/)
    const { place } = foundBatch() as { place: object }
    const sent = { ...place, spooled: true, stored_at: '2026-11-22T16:01:22.120Z' }
    stage.double.answers.set(`/api/batches/${BATCH_ID}`, () => ok(foundBatch({ place: sent })))
    const later = await open(`/batch?id=${BATCH_ID}`)
    await expectShown(later, 'Stored, read by warehouse')
    expect(await stops(later)).toMatch(/^Received[^|]*\| Spooled[^|]*\| Stored[^|]*, \+2 h/)
  })

  test('damage that the search met is named', async () => {
    const damage = [{ kind: 'checksum', file: '000000000012.ndjson', offset_bytes: 2048, length_bytes: 512 }]
    stage.double.answers.set(`/api/batches/${BATCH_ID}`, () => ok(foundBatch({ damage })))
    const page = await open(`/batch?id=${BATCH_ID}`)
    await expectShown(page, 'The search met damage in 000000000012.ndjson at 2048.')
  })
})

describe('Find', () => {
  const found = (query: string, ...hits: object[]): void => {
    stage.double.answers.set('/api/search', (asked) => {
      const answer = { query, found: asked.query['q'] === query ? hits : [], searched_back_to: null, complete: true }
      return ok({ ...answer, skipped: 0 })
    })
  }

  test('goes to the page of what an id is, from any page, by / and by Ctrl+K', async () => {
    const page = await open('/apps')
    const look = async (key: string, text: string, url: string): Promise<void> => {
      await page.keyboard.press(key)
      await page.locator('#find:focus').waitFor()
      await page.locator('#find').fill(` ${text} `)
      await page.keyboard.press('Enter')
      await page.waitForURL(url)
    }
    await page.getByRole('button', { name: 'Find any id' }).first().waitFor()
    found(BATCH_ID, { kind: 'batch', batch_id: BATCH_ID })
    await look('/', BATCH_ID, `**/batch?id=${BATCH_ID}`)
    await expectShown(page, 'Stored, read by warehouse')
    const refusal = refusalOf(7)
    found(refusal.request_id, { kind: 'refusal', ...refusal })
    await look('Control+k', refusal.request_id, `**/batch?id=${refusal.request_id}`)
    const event = { kind: 'event', ...sampledEvent(4, { batch_id: BATCH_ID, index: 1 }) }
    found('shop key', { kind: 'user', ...sampledEvent(1) }, event)
    await look('Meta+k', 'shop key', `**/batch?id=${BATCH_ID}&event=1`)
    await page.getByLabel('Event 1 as JSON').waitFor()
    // The search is no step of its own on the way back.
    await page.goBack()
    await page.waitForURL(`**/batch?id=${refusal.request_id}`)
    await page.keyboard.press('/')
    await expectShown(page, 'Looked up lately')
    await page.locator('dialog').getByText('shop key').waitFor()
    await page.keyboard.press('Escape')
    await page.locator('dialog').waitFor({ state: 'detached' })
  })

  test('completes apps and pages, by the arrows', async () => {
    const page = await open('/')
    await expectShown(page, 'Healthy')
    await page.keyboard.press('/')
    await page.locator('#find').fill('news')
    await page.locator('dialog a.item', { hasText: 'news-reader-for-tablets' }).waitFor()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('Enter')
    await page.waitForURL('**/app?id=news-reader-for-tablets')
  })

  test('takes its key from the moment that it is there', async () => {
    const page = await open('/apps')
    const press = `document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '/', bubbles: true }))`
    const content = `new MutationObserver((_, observer) => {
      if (document.querySelector('.side') === null) return
      observer.disconnect()
      ${press}
    }).observe(document, { childList: true, subtree: true })`
    await page.addInitScript({ content })
    await page.reload()
    await page.locator('#find').waitFor()
    expect(await page.locator('#find:focus').count()).toBe(1)
  })

  test('shows the events of a user, each with its batch, by j and k', async () => {
    found('user-41', ...[3, 2, 1].map((number) => Object.assign({ kind: 'user' }, sampledEvent(number, { index: 5 }))))
    const page = await open('/search?q=user-41')
    await expectShown(page, 'user-41: the newest 3 events of this user.')
    // A screen reader would read all of them out.
    expect(await page.locator('[aria-live] a.item').count()).toBe(0)
    await rowsOf(page).first().focus()
    for (const key of ['j', 'j', 'k', 'ArrowDown', 'Enter']) await page.keyboard.press(key)
    await page.waitForURL('**/batch?**')
    expect(page.url()).toContain(`/batch?id=${sampledEvent(1).batch_id}&event=5`)
  })

  test('says what was not found, and how far it looked', async () => {
    const page = await open('/search?q=nobody')
    await expectShown(page, 'Nothing with the id nobody was found')
    await expectShown(page, 'It is no batch, key, event or user that is stored')
    const partly = { query: 'x', found: [], searched_back_to: '2026-11-22T13:00:00.000Z', complete: false, skipped: 0 }
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
    const page = await open(`/search?q=${BATCH_ID}`)
    await expectShown(page, 'Others search.')
    found(BATCH_ID, { kind: 'batch', batch_id: BATCH_ID })
    await page.keyboard.press('/')
    await page.locator('#find').fill(BATCH_ID)
    await page.keyboard.press('Enter')
    await page.waitForURL(`**/batch?id=${BATCH_ID}`)
  })
})

describe('Apps', () => {
  test('a thousand apps: the least left first, few in the document, all by scrolling', async () => {
    const page = await open('/apps')
    await expectShown(page, '1,000 apps. Forecasts go by the last five minutes.')
    expect(await rowsOf(page).first().innerText()).toMatch(
      /news-reader-for-tablets[^]*19,200 of 20,000[^]*full in 69 s/,
    )
    expect(await rowsOf(page).count()).toBeLessThan(60)
    expect(await textOf(page, '.head')).toContain('Events, 1 h')
    const [node] = (busyNow() as unknown as Now).nodes
    const started_at = new Date(Date.now() - 720_500).toISOString()
    stage.double.now = busyNow({ nodes: [{ ...node, started_at }] })
    await expectShown(page, 'Events, 12 min')
    await page.evaluate('scrollTo(0, document.body.scrollHeight)')
    await expectShown(page, 'app-0999')
    expect(await rowsOf(page).count()).toBeLessThan(60)
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
    const noted = async (app: string): Promise<string> => await page.locator('a.item', { hasText: app }).innerText()
    expect(await noted('busy')).toMatch(/full in 20 s[^]*full in 25 h/)
    expect(await page.locator('a.item', { hasText: 'busy' }).locator('.said.fail').innerText()).toBe('full in 20 s')
    expect(await noted('fresh')).toMatch(/until 00:00[^]*until 1 Dec/)
    expect(await noted('steady')).toMatch(/full in 2 h[^]*<?1?\d*% by 1 Dec/)
  })

  test('search as one types, a kind and another order are in the URL; the list is saved as CSV', async () => {
    const page = await open('/apps')
    await expectShown(page, '1,000 apps')
    await pageBox(page).fill('customer 77')
    await expectShown(page, '11 of 1,000 apps')
    await page.getByLabel('Sort').selectOption('name')
    await page.waitForURL('**/apps?app=customer+77&sort=name')
    expect(await textOf(page, '.rows .app')).toBe('app-0077')
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'CSV' }).click(),
    ])
    const lines = (await readFile(await download.path(), 'utf8')).trim().split('\n')
    expect(lines).toHaveLength(1 + 11 * 3)
    expect(lines[1]).toBe(
      'app-0077,Customer 77,100k,active,minute,4,1000,2026-11-22T14:03:00.000Z,0,36000,800000,400000',
    )
    await page.getByRole('button', { name: /^Refused/ }).click()
    await page.waitForURL('**/apps?app=customer+77&sort=name&kind=refused')
  })

  test('what an app has stored is a column to sort by, and is said on its page and to its developers', async () => {
    const stored = (last_hour: number) => ({ last_hour, today: 3 * last_hour, highest_minute_today: 1024 })
    const apps = [
      appOf(1, { app_id: 'little', stored_bytes: stored(2048) }),
      appOf(2, { app_id: 'unknown', stored_bytes: null }),
      appOf(3, { app_id: 'much', stored_bytes: stored(5 * 1024 * 1024) }),
    ]
    stage.double.answers.set('/api/apps', () => ok({ apps, total_apps: 3, read_at: '2026-11-22T14:02:31.000Z' }))
    const page = await open('/apps')
    await expectShown(page, '3 apps')
    expect(await textOf(page, '.head')).toMatch(/Bytes, 1 h/)
    await page.getByLabel('Sort').selectOption('bytes')
    await page.waitForURL('**/apps?sort=bytes')
    const rows = await page.locator('a.item').allInnerTexts()
    expect(rows.map((row) => /much|little|unknown/.exec(row)?.[0])).toEqual(['much', 'little', 'unknown'])
    expect(rows[0]).toContain('5 MiB')
    expect(rows[2]).toContain('not known')
    await expectShown(
      await open('/app?id=much'),
      'Stored in 1 h: 5 MiB; today: 15 MiB, up to 1 KiB a minute; what the nodes that answer have counted since their start.',
    )
  })

  test('no app fits, and no app at all, say so', async () => {
    const page = await open('/apps?app=nobody')
    await expectShown(page, 'No app fits')
    stage.double.answers.set('/api/apps', () => ok({ apps: [], total_apps: 0, read_at: '2026-11-22T14:02:31.000Z' }))
    await expectShown(await open('/apps'), 'sluice apps add shop --plan 100k')
  })

  test('one app: its windows, 35 days, causes, keys, alerts and events', async () => {
    const page = await open('/apps')
    await page.getByRole('link', { name: /^shop/ }).click()
    await page.waitForURL('**/app?id=shop')
    // In its last day a month's end is an hour.
    await expectShown(page, /shop: month full until (1 Dec|00:00)\./)
    await page.getByRole('figure', { name: 'Events accepted by day' }).waitFor()
    expect(await page.getByRole('region', { name: 'This month' }).innerText()).toContain('5,000,000 + 10%')
    expect(await page.getByRole('region', { name: 'Keys' }).innerText()).toMatch(
      /ak_shop_…c1d[^]*sending[^]*web-team[^]*reading/,
    )
    await expectShown(page, '60% of the month is used')
    await page.getByRole('region', { name: 'Newest events' }).locator('a.item').first().click()
    await page.waitForURL('**/events?app=shop&event=*')
    await page.locator('.detail').waitFor()
    await expectShown(await open('/app?id=nobody'), 'There is no such app')
  })

  test('what of one app is in spools of nodes is told, where there is any', async () => {
    const page = await open('/app?id=shop')
    await page.getByRole('region', { name: 'Keys' }).waitFor()
    expect(await page.getByText(/kept on disks/).count()).toBe(0)
    const spooled = { events: 1234, of_gone_nodes: 34 }
    const answer = { apps: [appOf(0, { spooled })], total_apps: 1, read_at: '2026-11-22T14:02:31.000Z' }
    stage.double.answers.set('/api/apps', () => ok(answer))
    await expectShown(await open('/app?id=shop'), /1,234 events accepted and kept on disks.* 34 of them .* no window/)
  })

  test('what the API does not have yet is not shown', async () => {
    for (const path of ['/api/apps/shop/usage', '/api/apps/shop/read-keys', '/api/alerts'])
      stage.double.answers.delete(path)
    const page = await open('/app?id=shop')
    await page.getByRole('region', { name: 'Keys' }).waitFor()
    expect(await page.getByText(/Last 35 days|Alerts/).count()).toBe(0)
    expect(await page.getByRole('alert').count()).toBe(0)
  })
})

describe('The keyboard', () => {
  test('g and a letter go to a page, ? shows all keys, f goes to the filter', async () => {
    const page = await open('/')
    await expectShown(page, 'Healthy')
    for (const [key, path] of [
      ['e', '/events'],
      ['r', '/refused'],
      ['b', '/batch'],
      ['a', '/apps'],
      ['x', '/explain'],
      ['n', '/'],
    ]) {
      await page.keyboard.press('g')
      await page.keyboard.press(key)
      await page.waitForURL(`${stage.double.url}${path}`)
    }
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Keys' }).waitFor()
    await page.keyboard.press('?')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.goto(`${stage.double.url}/events`)
    await rowsOf(page).first().waitFor()
    await page.keyboard.press('f')
    expect(await page.evaluate<string>('document.activeElement.labels[0].innerText')).toBe('Filter')
  })

  test('j, k, enter and esc move in a list, open and close', async () => {
    const page = await open('/events')
    await rowsOf(page).first().waitFor()
    for (const key of ['j', 'j', 'j', 'k', 'Enter']) await page.keyboard.press(key)
    await page.locator('.detail').waitFor()
    const { batch_id: id, index } = sampledEvent(238)
    expect(page.url()).toContain(encodeURIComponent(`${id}:${index}`))
    await page.keyboard.press('Escape')
    await page.locator('.detail').waitFor({ state: 'detached' })
  })
})

describe('Explain', () => {
  const BODY = '{"app_key":"ak_shop","events":[{"type":"track"},{"context":{"os":""},"properties":{"colour":"long"}}]}'

  test('every offending member is marked in the text, and the limits left are said', async () => {
    const page = await open('/explain')
    await expectShown(page, 'Dry run: nothing is stored or counted.')
    await page.getByLabel('A body as an SDK sends it').fill(BODY)
    await page.getByLabel('as app key').fill('ak_other')
    await page.getByRole('button', { name: 'Explain', exact: true }).click()
    await expectShown(page, 'Would be refused: 3 members do not fit.')
    expect(await page.locator('mark').allInnerTexts()).toEqual(['{', '"os":""', '"colour":"long"'])
    expect(await page.locator('mark').nth(1).getAttribute('title')).toBe(
      'events[1].context.os: length must be at least 1',
    )
    await expectShown(page, '188 left of 1,000')
    await expectShown(page, '3,495,689 left of 5,000,000 + 10%')
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
    await expectShown(page, '3 members do not fit.')
    await page.locator('input[type=file]').setInputFiles(file('x'.repeat(524_289)))
    await expectShown(page, 'The file has 524,289 bytes; a body has at most 524,288.')
    expect(stage.double.asked.filter(({ path }) => path === '/api/explain')).toHaveLength(1)
  })
})
