// What is opened beside a list, and the figures of a phone, at the widths between a desk and a phone.

import { expect, test } from 'vitest'
import { consoleStage } from '../support/console-stage.ts'

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
