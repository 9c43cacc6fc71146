// What is opened beside a list, and the figures of a phone, at the widths between a desk and a phone.

import { expect, test } from 'vitest'
import { ALERTS, BATCH_ID, sampledEvent } from '../support/console-data.ts'
import { type Asked, ok } from '../support/console-double.ts'
import { consoleStage } from '../support/console-stage.ts'
import { eventually } from '../support/service.ts'

const stage = consoleStage()
const { open } = stage

test.each([1400, 1024, 900])('at %i px an event and a cause are opened beside their list, in sight', async (width) => {
  for (const [path, panel] of [
    ['/events', 'The opened event'],
    ['/refused', 'The opened cause'],
  ] as const) {
    const page = await open(path, { viewport: { width, height: 800 } })
    await page.locator('.rows a.item').nth(2).click()
    const heading = page.getByRole('region', { name: panel }).locator('h2')
    await heading.waitFor()
    const list = await page.locator('.rows').first().boundingBox()
    const box = await heading.boundingBox()
    expect(box?.y).toBeLessThan(600)
    expect(box?.x).toBeGreaterThan((list?.x ?? 0) + (list?.width ?? width))
    expect(await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0)
  }
})

test.each([800, 390])('at %i px what is opened takes the place of its list, with a way back', async (width) => {
  const page = await open('/events', { viewport: { width, height: 800 } })
  await page.locator('.rows a.item').nth(4).click()
  const panel = page.getByRole('region', { name: 'The opened event' })
  const heading = panel.locator('h2')
  // Its name is not cut by the buttons beside it.
  expect(await heading.evaluate((one) => one.scrollWidth <= one.clientWidth)).toBe(true)
  expect(await page.getByRole('region', { name: 'Events', exact: true }).count()).toBe(0)
  await page.getByRole('button', { name: 'Back to the list' }).click()
  await page.getByRole('region', { name: 'Events', exact: true }).waitFor()
})

test('on a phone what to do about a 503 is read in whole words, and a range is picked with a thumb', async () => {
  const { double } = stage
  double.now = { ...double.now, state: 'refusing', reasons: [{ reason: 'journal_full', per_second: 9 }] }
  const page = await open('/', { viewport: { width: 375, height: 800 } })
  const words = page.locator('.note.fail .grow')
  await words.waitFor()
  expect((await words.boundingBox())?.width).toBeGreaterThan(240)
  const range = page.getByRole('button', { name: '15 min' })
  expect((await range.boundingBox())?.height).toBeGreaterThanOrEqual(36)
  expect((await range.boundingBox())?.width).toBeGreaterThan(90)
})

test.each(['/events', '/refused', '/apps', `/batch?id=${BATCH_ID}`])(
  'on a phone what is typed into %s has room, and its button is in sight',
  async (path) => {
    const page = await open(path, { viewport: { width: 390, height: 844 } })
    const input = page.locator('main .field input')
    await input.waitFor()
    expect((await input.boundingBox())?.width).toBeGreaterThan(230)
    expect(await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0)
  },
)

test.each([
  ['no-preference', 'come'],
  ['reduce', 'none'],
] as const)('with reduced motion %s a row that has just come fades in: %s', async (reducedMotion, animation) => {
  const page = await open('/events', { reducedMotion })
  await page.locator('.rows a.item').nth(3).waitFor()
  const animations = (): Promise<string[]> =>
    page.evaluate(`[...document.querySelectorAll('.rows a.item')].map((row) => getComputedStyle(row).animationName)`)
  expect(new Set(await animations())).toEqual(new Set(['none']))
  await eventually('the page listens', () => stage.double.listeners('/api/events/stream') === 1)
  stage.double.send('/api/events/stream', 'event', sampledEvent(241))
  await eventually('it has come', async () => (await page.locator('[data-new]').count()) === 1)
  expect(new Set(await animations())).toEqual(new Set(['none', animation]))
})

test('events of one user, by the filter or a click on a user, are asked for and listened to', async () => {
  const page = await open('/events?user=user-41')
  await eventually('it listens', () => stage.double.listeners('/api/events/stream?user=user-41') === 1)
  const isAsked = ({ path, query }: Asked): boolean => path === '/api/events' && query['user'] === 'user-41'
  await eventually('it is asked for', () => stage.double.asked.some(isAsked))
  expect(await page.getByLabel('Filter').inputValue()).toBe('user:user-41')
  await page.locator('.rows a.item').first().click()
  await page
    .locator('.detail')
    .getByRole('link', { name: /^user-/ })
    .click()
  await page.waitForURL(/\/events\?user=user-\d+$/)
})

test('an alert that is raised while the page is open is there at once', async () => {
  const page = await open('/app?id=shop')
  const alerts = page.getByRole('region', { name: 'Alerts' })
  await alerts.getByText('60% of the month is used').waitFor()
  await eventually('it listens', () => stage.double.listeners('/api/alerts/stream?app=shop') === 1)
  const raised = { ...ALERTS.alerts[0], id: '70', percent: 70 }
  // Of all apps there may be more than the first thousand.
  stage.double.answers.set('/api/alerts', ({ query }) =>
    query['app'] === 'shop' ? ok({ alerts: [...ALERTS.alerts, raised], more: false }) : ok({ alerts: [], more: true }),
  )
  stage.double.send('/api/alerts/stream', 'alert', raised)
  await alerts.getByText('70% of the month is used').waitFor()
})
