// The console of a running service, in a real Chromium: what is sent to the public port is seen in the pages.

import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { event, type Members, post } from '../support/client.ts'
import { expectShown, launchBrowser, Pages } from '../support/console-page.ts'
import { appRecord, eventually, roomInMinute, type Service, startService } from '../support/service.ts'

const TOKEN = 'a-token-of-twenty-characters'
const APPS = [appRecord('shop', { name: 'Shop' }), appRecord('small', { events_per_minute: 1 })]

let browser: Browser
let open: Service
let guarded: Service
let pages: Pages

beforeAll(async () => {
  browser = await launchBrowser()
  open = await startService({ apps: APPS })
  guarded = await startService({ apps: APPS, env: { SLUICE_CONSOLE_TOKEN: TOKEN } })
})
afterAll(() => browser?.close())
beforeEach(() => {
  pages = new Pages(browser)
})
afterEach(() => pages.close())

function bodyOf(appKey: string, ...events: Members[]): string {
  return JSON.stringify({ app_key: appKey, events })
}

function view(path: string, service = open): Promise<Page> {
  return pages.open(`http://127.0.0.1:${service.adminPort}${path}`)
}

test('Now shows what is accepted and refused as it happens', async () => {
  const page = await view('/')
  await expectShown(page, 'Healthy')
  await page.locator('.plot svg path').first().waitFor({ state: 'attached' })
  await eventually('the refused ones are counted', async () => {
    await post(open, bodyOf('ak_nobody'))
    return (await page.locator('.verdict').innerText()).includes('rejected')
  })
  await page.getByRole('region', { name: 'Refused most' }).getByText('No app has this key').click()
  await page.getByRole('heading', { name: 'No app has this key' }).waitFor()
})

test('a fresh service shows a line that sends its first event, which then is there, also after a reload', async () => {
  const fresh = await startService({})
  try {
    const page = await view('/events', fresh)
    await expectShown(page, 'No event is stored yet')
    await expectShown(page, `http://127.0.0.1:${fresh.port}/api/v1/events`)
    const line = await page.locator('.sample').innerText()
    const { stdout } = await promisify(execFile)('sh', ['-c', line])
    expect(stdout).toMatch(/^HTTP\/1\.1 202/)
    await expectShown(page, 'Got it: track signed_up is stored.')
    await page.reload()
    await page.locator('a.item.event').waitFor()
    expect(await page.locator('a.item.event').innerText()).toContain('plan=yearly')
    const id = /x-batch-id: (\S+)/i.exec(stdout)?.[1] ?? ''
    await page.keyboard.press('/')
    await page.locator('#find').fill(id)
    await page.keyboard.press('Enter')
    await expectShown(page, 'Stored.')
    await expectShown(page, /^1 event, received at /)
  } finally {
    await fresh.kill()
  }
})

test('one’s own event is seen by its filter, opened, and found as a batch', async () => {
  const page = await view('/events?app=shop&name=mine*')
  const name = `mine ${randomUUID()}`
  let batchId = ''
  await eventually('the event is in the list', async () => {
    await post(open, bodyOf('ak_shop', event({ name: 'another' })))
    const sent = await post(open, bodyOf('ak_shop', event({ name })))
    batchId = String(sent.headers['x-batch-id'])
    return (await page.locator('a.item.event').count()) > 0
  })
  expect(await page.locator('a.item.event').first().innerText()).toContain(name)
  await page.locator('a.item.event').first().click()
  expect(JSON.parse(await page.locator('.detail pre').innerText())).toMatchObject({ name })

  const found = await view(`/batch?id=${batchId}`)
  await expectShown(found, /^1 event, received at /)
  await expectShown(found, /byte [\d,]+ of /)
  await expectShown(found, name)
})

test('a refused batch is listed with its path and request id, and explained', async () => {
  const page = await view('/refused?app=shop')
  const body = bodyOf('ak_shop', event({ name: '' }))
  const refused = await post(open, body)
  const id = String(refused.headers['x-request-id'])
  await page.getByRole('heading', { name: /^name / }).waitFor()
  await page.getByTitle(`Copy ${id}`).waitFor()
  await page.getByRole('link', { name: 'Try a body in Explain' }).click()
  await page.getByLabel('A body as an SDK sends it').fill(body)
  await page.getByRole('button', { name: 'Explain', exact: true }).click()
  await expectShown(page, /^Would be refused: events\[0\]\.name/)
  expect(await page.locator('mark').allInnerTexts()).toEqual(['"name":""'])
})

test('Apps shows how much of its limits an app has used', async () => {
  await roomInMinute(15)
  await post(open, bodyOf('ak_small', event()))
  const page = await view('/apps?app=small')
  await expectShown(page, '1 of 1')
  await expectShown(page, /full, back in/)
})

test('with a token, the console asks for it, says when it is wrong, and opens', async () => {
  const page = await view('/apps', guarded)
  const field = page.getByLabel('Console token')
  await field.fill('not the token of this one')
  await page.keyboard.press('Enter')
  await eventually('it is said', async () => (await page.getByRole('alert').innerText()).length > 10)
  await field.fill(TOKEN)
  await page.keyboard.press('Enter')
  await expectShown(page, '2 apps')
  await page.reload()
  await expectShown(page, '2 apps')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await field.waitFor()
})

test('a service that ends is said on top', async () => {
  const ending = await startService({ apps: APPS })
  try {
    const page = await view('/', ending)
    await expectShown(page, 'Healthy')
    await ending.stop()
    await expectShown(page, /No connection to .* for \d/)
    expect(await page.locator('.pill.state').innerText()).toBe('Not connected')
  } finally {
    await ending.kill()
  }
})
