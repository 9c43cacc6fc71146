// The portal of a running service, in a real Chromium: what an app's own developers see of what they send.

import { randomUUID } from 'node:crypto'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { event, type Members, post } from '../support/client.ts'
import { expectShown, launchBrowser, Pages } from '../support/console-page.ts'
import { appRecord, eventually, runCommand, type Service, startService } from '../support/service.ts'

let browser: Browser
let service: Service

beforeAll(async () => {
  browser = await launchBrowser()
  const apps = [appRecord('shop', { name: 'Shop' }), appRecord('other')]
  service = await startService({ apps, env: { SLUICE_PORTAL_PORT: '0' } })
})
afterAll(() => browser?.close())

function send(appKey: string, ...events: Members[]) {
  return post(service, JSON.stringify({ app_key: appKey, events }))
}

test('with a read key, an app sees what it sent and what was refused, and finds its batch', async () => {
  const made = await runCommand(['apps', 'read-key', 'shop', '--name', 'web-team'], {
    SLUICE_DATA_DIR: service.dataDir,
  })
  const key = made.stdout.split('\n')[0] ?? ''
  const pages = new Pages(browser)
  try {
    const page = await pages.open(`http://127.0.0.1:${service.portalPort}/`)
    await eventually('the key opens it', async () => {
      await page.getByLabel('Read key').fill(key)
      const answered = page.waitForResponse((answer) => answer.request().method() === 'POST')
      await page.keyboard.press('Enter')
      return (await answered).status() === 204
    })
    await expectShown(page, 'Welcome. Send your first event.')
    const name = `mine ${randomUUID()}`
    const sent = await send('ak_shop', event({ name }))
    await send('ak_other', event({ name: 'of another' }))
    const refused = await send('ak_shop', event({ name: '' }))
    await page.reload()
    await expectShown(page, /^On track\. /)
    await page.getByRole('figure', { name: 'Events accepted by day' }).waitFor()
    await page.getByRole('link', { name: 'Events', exact: true }).click()
    await page.locator('a.item.event').first().click()
    expect(JSON.parse(await page.locator('.detail pre').innerText())).toMatchObject({ name })
    expect(await page.locator('a.item.event').count()).toBe(1)
    await page.getByRole('link', { name: 'Refused', exact: true }).click()
    await page.getByRole('heading', { name: /^name / }).waitFor()
    for (const [id, words] of [
      [sent.headers['x-batch-id'], 'Stored.'],
      [refused.headers['x-request-id'], 'This request was refused, so no batch has this id.'],
    ] as const) {
      await page.keyboard.press('/')
      await page.locator('#find').fill(String(id))
      await page.keyboard.press('Enter')
      await expectShown(page, words)
    }
  } finally {
    await pages.close()
  }
})
