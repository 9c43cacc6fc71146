// The console's manners in a real Chromium: token, markup, keyboard, small screens, a lost connection, contrast, size.

import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { gzipSync } from 'node:zlib'
import axe from 'axe-core'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import {
  AN_HOUR_AGO,
  appOf,
  BATCH_ID,
  busyNow,
  EXPLAINED,
  foundBatch,
  groupOf,
  refusalOf,
  sampledEvent,
} from '../support/console-data.ts'
import { ok } from '../support/console-double.ts'
import { expectShown, Pages } from '../support/console-page.ts'
import { SCENES } from '../support/console-scenes.ts'
import { consoleStage } from '../support/console-stage.ts'
import { eventually } from '../support/service.ts'

const BUILT = resolve(import.meta.dirname, '../../dist/console')
const VIEWS = [
  '/',
  '/events',
  '/refused',
  `/batch?id=${BATCH_ID}`,
  '/apps',
  '/app?id=shop',
  '/explain',
  '/search?q=user-41',
]

const stage = consoleStage()
const { open } = stage

/** With all that the page has to show. */
async function openFull(path: string, options: BrowserContextOptions = {}): Promise<Page> {
  const page = await open(path, options)
  if (path === '/') await page.locator('.plot svg path').first().waitFor({ state: 'attached' })
  if (/^.(search|apps|refused)/.test(path)) await page.locator('.rows a.item').first().waitFor()
  if (path.startsWith('/batch')) await page.locator('.way').waitFor()
  if (path.startsWith('/app?')) await page.getByRole('heading', { name: 'Last 35 days', exact: true }).waitFor()
  if (path === '/events') {
    await eventually('the page listens', () => stage.double.listeners('/api/events/stream') === 1)
    await page.locator('.rows a.item').nth(3).click()
    await page.locator('.detail pre').waitFor()
  }
  if (path === '/explain') await explain(page, '{"events":[{},{"context":{"os":""}}]}')
  return page
}

async function explain(page: Page, body: string): Promise<void> {
  await page.getByLabel('A body as an SDK sends it').fill(body)
  await page.getByRole('button', { name: 'Explain', exact: true }).click()
  await page.locator('mark').first().waitFor()
}

test('all that a browser loads is at most 150 KB gzipped', () => {
  const page = readFileSync(join(BUILT, 'index.html'))
  const assets = readdirSync(join(BUILT, 'assets')).map((name) => readFileSync(join(BUILT, 'assets', name)))
  const bytes = [page, ...assets].reduce((sum, file) => sum + gzipSync(file).length, 0)
  // A script, a style sheet, and two fonts with their licence in the style sheet.
  expect(assets).toHaveLength(4)
  expect(assets.filter((file) => file.includes('SIL OPEN FONT LICENSE'))).toHaveLength(1)
  expect(bytes).toBeLessThanOrEqual(150 * 1024)
})

test('the token is asked for once: a wrong one is said in a sentence, the right one opens', async () => {
  stage.double.token = 'a token of the tests'
  const page = await open('/refused?app=shop')
  const field = page.getByLabel('Console token')
  await field.fill('something else')
  await page.keyboard.press('Enter')
  await expectShown(page, 'This is not the token.')
  expect(stage.double.asked.every(({ path }) => path === '/api/session')).toBe(true)
  await field.fill('a token of the tests')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.locator('.rows a.item').first().waitFor()
  expect(page.url()).toBe(`${stage.double.url}/refused?app=shop`)
  await page.reload()
  await page.locator('.rows a.item').first().waitFor()
  // A token that was changed meanwhile is asked for again.
  await page.context().clearCookies()
  await page.getByRole('link', { name: 'Apps' }).click()
  await field.waitFor()
})

test('an event, a refusal and a batch with markup in each of their strings are shown as text', async () => {
  const markup = (name: string): string => `<img src=x onerror="document.title='broken'"><b class=bad>${name}</b>`
  const event = {
    type: markup('type'),
    name: markup('name'),
    session_id: '<b>',
    properties: { [markup('key')]: markup('value') },
  }
  const sampled = sampledEvent(0, {
    app_id: markup('app'),
    sdk_version: markup('sdk'),
    node: markup('node'),
    trace: markup('trace'),
    event,
  })
  const strings = { app_id: markup('app'), path: markup('path'), sdk_version: markup('sdk') }
  const refusal = refusalOf(0, { ...strings, message: markup('message'), node: markup('node') })
  stage.double.now = busyNow({ state: 'degraded', state_reason: markup('reason') })
  const groups = [
    groupOf(0, { ...strings, sdk_versions: [markup('sdk')], message: markup('message') }),
    groupOf(1, { origin: markup('origin') }),
  ]
  stage.double.answers.set('/api/refusals', () => ok({ since: AN_HOUR_AGO, refusals: [refusal], groups }))
  stage.double.answers.set(`/api/batches/${BATCH_ID}`, () =>
    ok(foundBatch({ app_id: markup('app'), sdk_version: markup('sdk'), record: { events: [event] } })),
  )
  stage.double.answers.set('/api/batches', () => ok({ found: true, refusal }))
  stage.double.answers.set('/api/apps', () =>
    ok({
      apps: [appOf(0, { app_id: markup('app'), name: markup('name'), plan: markup('plan') })],
      total_apps: 1,
      read_at: '2026-11-22T14:02:31.000Z',
    }),
  )
  stage.double.answers.set('/api/explain', () =>
    ok({
      ...EXPLAINED,
      message: markup('message'),
      errors: [{ path: markup('path'), message: markup('wrong'), start: null, end: null }],
    }),
  )
  const expectText = async (page: Page, ...names: string[]): Promise<void> => {
    for (const name of names) await expectShown(page, `<b class=bad>${name}</b>`)
    expect(await page.locator('img, b.bad').count()).toBe(0)
    expect(await page.title()).not.toBe('broken')
  }

  await expectText(await open('/'), 'reason')
  stage.double.answers.set('/api/events', () =>
    ok({ events: [sampled], searched_back_to: null, complete: true, skipped: 0 }),
  )
  const events = await open('/events')
  await expectText(events, 'app', 'type', 'name', 'sdk')
  await events.locator('.rows a.item').click()
  await expectText(events, 'trace', 'node')
  expect(JSON.parse(await events.locator('.detail pre').innerText())).toEqual(event)
  await expectText(await open('/refused'), 'app', 'path', 'message', 'sdk')
  const batch = await open(`/batch?id=${BATCH_ID}&event=0`)
  await expectText(batch, 'app', 'sdk', 'name')
  expect(JSON.parse(await batch.locator('pre').innerText())).toEqual(event)
  await expectText(await open('/batch?app=shop&key=7f0e0bb2-6c3a-4d5e-9a53-2a6a4d1c9a10'), 'message')
  await expectText(await open('/apps'), 'app', 'name')
  await expectText(await open(`/app?id=${encodeURIComponent(markup('app'))}`), 'app', 'name', 'plan')
  const found = { found: [{ kind: 'user', ...sampled }], searched_back_to: null, complete: true, skipped: 0 }
  stage.double.answers.set('/api/search', () => ok(found))
  await expectText(await open(`/search?q=${encodeURIComponent(markup('user'))}`), 'user', 'app', 'type', 'name')
  const explained = await open('/explain')
  await explained.getByLabel('A body as an SDK sends it').fill('{}')
  await explained.getByRole('button', { name: 'Explain', exact: true }).click()
  await expectText(explained, 'message', 'path')
})

test('the keyboard alone gets everywhere: skip link first, then pages, then the content', async () => {
  const page = await open('/events')
  await page.locator('.rows a.item').nth(4).waitFor()
  const focused = (): Promise<string> =>
    page.evaluate<string>('document.activeElement.innerText || document.activeElement.labels?.[0]?.innerText || ""')
  const visited: string[] = []
  for (let step = 0; step < 18; step++) {
    await page.keyboard.press('Tab')
    visited.push((await focused()).replace(/\s+/g, ' ').trim())
    const outline = `(document.activeElement.closest('.field') ?? document.activeElement)`
    expect(await page.evaluate<string>(`getComputedStyle(${outline}).outlineStyle`)).not.toBe('none')
  }
  const last = visited.findIndex((text) => text.startsWith('track '))
  expect(visited.slice(0, last)).toEqual([
    'Skip to the content',
    'sluice',
    'Find any id /',
    'Now',
    'Events',
    'Refused 37/s',
    'Batch',
    'Apps',
    'Explain',
    'Theme: system',
    'Healthy',
    'Filter',
    'All',
    'track',
    'screen',
    'revenue',
    'Pause space',
  ])
  await page.keyboard.press('ArrowDown')
  expect(await focused()).toContain('screen')
  await page.keyboard.press('Enter')
  await page.locator('.detail').waitFor()
  await page.keyboard.press('Escape')
  await page.locator('.detail').waitFor({ state: 'detached' })
  await page.keyboard.press(' ')
  await page.getByRole('button', { name: /Resume/ }).waitFor()
})

test('a screen reader reads the state out when it changes, and not each second', async () => {
  stage.double.now = busyNow({ state: 'refusing', state_reason: 'journal full for 5 s' })
  const page = await open('/')
  const status = page.locator('.top [role=status]')
  await expectShown(page, 'journal full for 5 s')
  expect(await status.textContent()).toBe('Refusing')
  stage.double.now = busyNow({ state: 'refusing', state_reason: 'journal full for 6 s' })
  await expectShown(page, 'journal full for 6 s')
  expect(await status.textContent()).toBe('Refusing')
  stage.double.now = busyNow()
  await eventually('it is well', async () => (await status.textContent()) === 'Healthy')
})

test.each([360, 768, 2560])(
  'nothing scrolls sideways or leaves its row at %i px, whatever the names',
  async (width) => {
    const long = 'a-very-long-name-without-any-place-to-break-it-'.repeat(5)
    stage.double.now = busyNow({
      state_reason: long,
      nodes: [{ ...((busyNow()['nodes'] as never[])[0] as object), node: long } as never],
    })
    const names = { app_id: long, sdk_version: long }
    stage.double.answers.set('/api/refusals', () =>
      ok({
        since: AN_HOUR_AGO,
        refusals: [refusalOf(0, { ...names, node: long, path: long })],
        groups: [groupOf(0, { ...names, path: long })],
      }),
    )
    stage.double.answers.set('/api/apps', () =>
      ok({
        apps: [appOf(0, { app_id: long, name: long, plan: long })],
        total_apps: 1,
        read_at: '2026-11-22T14:02:31.000Z',
      }),
    )
    stage.double.answers.set(`/api/batches/${BATCH_ID}`, () => ok(foundBatch({ ...names, trace: long })))
    const days = stage.double.answers.get('/api/apps/shop/usage')
    if (days !== undefined) stage.double.answers.set(`/api/apps/${long}/usage`, days)
    const tooHigh = `[...document.querySelectorAll('.rows > li')]
    .filter((row) => row.scrollHeight > row.clientHeight + 1).map((row) => row.innerText)`
    const sideways = 'document.documentElement.scrollWidth - innerWidth'
    const event = sampledEvent(0, { ...names, event: { name: long, type: long, user_id: long } })
    const nothing = { searched_back_to: null, complete: true, skipped: 0 }
    stage.double.answers.set('/api/events', () =>
      ok({ events: Array.from({ length: 5 }, (_, index) => ({ ...event, index })), ...nothing }),
    )
    for (const view of VIEWS) {
      const page = await openFull(view.replace('id=shop', `id=${long}`).replace(BATCH_ID, BATCH_ID), {
        viewport: { width, height: 800 },
      })
      expect(await page.evaluate<number>(sideways), `${view} at ${width} px`).toBeLessThanOrEqual(0)
      expect(await page.evaluate<string[]>(tooHigh), `${view} at ${width} px`).toEqual([])
    }
  },
)

test('a lost connection is said on top and what is shown is marked as old, until the node is back', async () => {
  const page = await openFull('/')
  stage.double.goAway()
  await expectShown(page, /No connection to this service for \d+ s/)
  await expectShown(page, /What you see is from \d\d:\d\d:\d\d UTC/)
  expect(await page.locator('.top [role=status]').textContent()).toBe('Not connected')
  const filter = `getComputedStyle(document.querySelector('main')).filter`
  expect(await page.evaluate<string>(filter)).toBe('grayscale(0.8)')
  expect(await page.locator('.figure').nth(1).innerText()).toBe('1,005 requests/s')
  stage.double.goAway(false)
  await page.getByRole('button', { name: 'Try now' }).click()
  await page.getByText(/^No connection/).waitFor({ state: 'detached' })
  expect(await page.evaluate<string>(filter)).toBe('none')
})

test('a connection that is back after a moment is not said to be lost', async () => {
  const page = await openFull('/')
  await page.evaluate(`new MutationObserver(() => {
    if (document.body.innerText.includes('No connection')) document.title = 'lost'
  }).observe(document.body, { subtree: true, childList: true, characterData: true })`)
  const asked = () => stage.double.asked.filter(({ path }) => path === '/api/now/stream').length
  const before = asked()
  stage.double.goAway()
  stage.double.goAway(false)
  await eventually('it is back', () => asked() > before)
  await eventually('it shows', () => stage.double.listeners('/api/now/stream') === 1)
  expect(await page.title()).toBe('Now · sluice')
})

test('a node that falls silent without ending the connection is said, too', async () => {
  const page = await openFull('/')
  stage.double.fallSilent()
  await expectShown(page, 'The node has fallen silent.')
})

test('too many watchers, and an API that fails, are said in the view', async () => {
  const full = { status: 503, body: { error: 'too_many_watchers', message: 'this node has 50 watchers already' } }
  stage.double.answers.set('/api/events/stream', () => full)
  stage.double.answers.set('/api/apps', () => ({
    status: 503,
    body: { error: 'away', message: 'Redis does not answer' },
  }))
  await expectShown(await open('/events'), 'This node has 50 watchers already.')
  await expectShown(await open('/apps'), 'Redis does not answer.')
})

test('a list that could not be read is asked for again, of events as of refusals', async () => {
  for (const [path, list] of [
    ['/events', '/api/events'],
    ['/refused', '/api/refusals'],
  ] as const) {
    const whole = stage.double.answers.get(list)
    let failures = 0
    stage.double.answers.set(list, (asked) => {
      // Causes are asked for apart, with a limit of one.
      if (asked.query['limit'] === '1' || failures === 2) return whole?.(asked) ?? ok({})
      failures += 1
      return { status: 503, body: { error: 'busy', message: 'this list is read by others' } }
    })
    const page = await open(path)
    await expectShown(page, 'This list is read by others.')
    await page.getByText('This list is read by others.').waitFor({ state: 'detached' })
    expect(failures).toBe(2)
  }
})

test('a code that the table does not know is shown all the same', async () => {
  const group = groupOf(0, { code: 'of_a_later_version', path: null })
  stage.double.answers.set('/api/refusals', () => ok({ since: AN_HOUR_AGO, refusals: [], groups: [group] }))
  await expectShown(await open('/refused'), 'of_a_later_version')
})

test('a page that does not exist leads back, also where it is asked for while the console opens', async () => {
  const page = await open('/events')
  await page.evaluate(`history.pushState(null, '', '/nowhere'); dispatchEvent(new PopStateEvent('popstate'))`)
  await expectShown(page, 'There is no such page')
})

test('the theme follows the system, or what was chosen', async () => {
  const page = await open('/explain', { colorScheme: 'dark' })
  const ground = (): Promise<string> =>
    page.evaluate<string>('getComputedStyle(document.documentElement).backgroundColor')
  expect(await ground()).toBe('rgb(11, 14, 18)')
  await page.getByRole('button', { name: 'Theme: system' }).click()
  expect(await ground()).toBe('rgb(246, 247, 249)')
  await page.reload()
  await page.getByRole('button', { name: 'Theme: light' }).waitFor()
  expect(await ground()).toBe('rgb(246, 247, 249)')
})

describe.each(['light', 'dark'] as const)('axe finds no serious violation in the %s scheme', (colorScheme) => {
  test.each(Object.keys(SCENES))('%s', async (name) => {
    const { path, double: make, before, prepare } = SCENES[name]
    const double = await make().start()
    const pages = new Pages(stage.browser)
    try {
      await before?.(double)
      const page = await pages.open(double.url + path, { colorScheme, viewport: { width: 1400, height: 900 } })
      await prepare?.(page, double)
      await page.evaluate(axe.source)
      const found = await page.evaluate<{ id: string; nodes: string[] }[]>(
        `axe.run().then(({ violations }) => violations
          .filter(({ impact }) => impact === 'serious' || impact === 'critical')
          .map(({ id, nodes }) => ({ id, nodes: nodes.slice(0, 3).map((node) => node.html + ' ' + node.failureSummary) })))`,
      )
      expect(found).toEqual([])
    } finally {
      double.stop()
      await pages.close()
    }
  })
})
