// The portal in a real Chromium: the same pages for one app, and nothing of the operators in them.

import { expect, test } from 'vitest'
import { BATCH_ID, missingBatch, portalDouble } from '../support/console-data.ts'
import { type ConsoleDouble, type Given, ok, refusal } from '../support/console-double.ts'
import { expectShown } from '../support/console-page.ts'
import { consoleStage } from '../support/console-stage.ts'

const stage = consoleStage(() => portalDouble())
const { open } = stage

const PAGES = ['Overview', 'Events', 'Refused', 'Batch', 'Explain']
/** All that it may ask. */
const PATHS =
  /^\/api\/(session|usage|events|events\/stream|refusals|refusals\/stream|batches|batches\/[^/]+|alerts|alerts\/stream|explain)$/

function pathsAsked(double: ConsoleDouble): string[] {
  return [...new Set(double.asked.map(({ path }) => path))]
}

test('has five pages, the name of the app on top, and nothing of nodes, stores or other apps', async () => {
  const page = await open('/')
  await expectShown(page, /^On track\. \d\d% of this month is used, about \d\d% by (1 Dec|00:00)\.$/)
  expect((await page.locator('nav a').allInnerTexts()).map((text) => text.trim())).toEqual(PAGES)
  expect(await page.locator('.side .brand').innerText()).toContain('Storefront')
  await page.getByRole('figure', { name: 'Events accepted by day' }).waitFor()
  for (const name of PAGES) {
    await page.getByRole('link', { name, exact: true }).click()
    await page.getByRole('heading', { name, exact: true, level: 1 }).waitFor()
    const shown = await page.locator('body').innerText()
    expect(shown).not.toMatch(/sluice-\d|SLUICE_|NATS|Redis|\bnodes\b|news-reader|games|maps|service_overloaded/)
    expect(await page.title()).toBe(`${name} · Storefront`)
  }
  expect(pathsAsked(stage.double).filter((path) => !PATHS.test(path))).toEqual([])
  // No parameter names an app.
  expect(stage.double.asked.filter(({ query }) => 'app' in query || 'app_id' in query)).toEqual([])
})

test('asks less than a read key may: 60 times a minute', async () => {
  const page = await open('/')
  await page.getByRole('figure', { name: 'Events accepted by day' }).waitFor()
  await page.clock.install()
  await page.reload()
  await page.getByRole('figure', { name: 'Events accepted by day' }).waitFor()
  const before = stage.double.asked.length
  for (let second = 0; second < 60; second++) await page.clock.runFor(1000)
  expect(stage.double.asked.length - before).toBeGreaterThan(5)
  expect(stage.double.asked.length - before).toBeLessThan(30)
})

test('without a key it asks for one, and says nothing else', async () => {
  stage.double.token = 'rk_of_the_tests'
  const page = await open('/refused')
  await page.getByLabel('Read key').fill('rk_wrong')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').waitFor()
  expect(await page.getByText('sluice').count()).toBe(0)
  await page.getByLabel('Read key').fill('rk_of_the_tests')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Refused', exact: true }).waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
})

test('during an outage it says since when it is degraded, and no more', async () => {
  stage.double.portal = { ...stage.double.portal, degraded_since: '2026-11-22T13:58:00.000Z' }
  const page = await open('/')
  await expectShown(page, 'Ingestion: Degraded since 13:58 UTC.')
  expect(await page.locator('.pill.state').innerText()).toBe('Degraded')
})

test('a lost connection is counted from its beginning, whatever the reason is now, and tried at once when asked', async () => {
  const page = await open('/')
  await expectShown(page, 'On track.')
  await page.clock.install()
  await page.reload()
  await page.clock.runFor(1000)
  await expectShown(page, 'On track.')
  const { double } = stage
  double.goAway()
  await page.clock.runFor(20_000)
  await expectShown(page, 'The node does not answer.')
  double.goAway(false)
  const session = (answer: () => Given) => double.answers.set('/api/session', answer)
  session(() => refusal(503, 'unavailable', 'try again'))
  await page.clock.runFor(40_000)
  await expectShown(page, /^No connection to this service for [4-6]\d s\./)
  session(() => ok(double.portal))
  await page.getByRole('button', { name: 'Try now' }).click()
  await page.getByText(/^No connection/).waitFor({ state: 'detached' })
})

test('an id is found by batch, by request and by key', async () => {
  const page = await open('/')
  await expectShown(page, 'On track.')
  await page.keyboard.press('/')
  await page.locator('#find').fill(BATCH_ID)
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/batch?id=${BATCH_ID}`)
  await expectShown(page, 'Stored.')
  expect(await page.getByRole('region', { name: 'Record' }).innerText()).not.toMatch(/Place|App/)
  const key = '7f0e0bb2-6c3a-4d5e-9a53-2a6a4d1c9a10'
  const {
    reason: _,
    searched_from: __,
    searched_to: ___,
    ...missing
  } = missingBatch({ complete: true, go_on_before: null })
  stage.double.answers.set(`/api/batches/${key}`, () => ok(missing))
  const other = await open(`/batch?id=${key}`)
  await expectShown(other, 'Not found')
  expect(stage.double.asked.some(({ path, query }) => path === '/api/batches' && query['key'] === key)).toBe(true)
})
