// The example page in a real Chromium, under the policy that the README gives, against the service itself.

import { cpSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { eventually, makeFolder } from '../support/service.ts'
import { startBrowser, startSite } from './support/browser.ts'
import { buildClient, start, storedEvents, urlOf } from './support/stored.ts'

const PACKAGE = resolve(import.meta.dirname, '../../clients/typescript')

it('sends what its buttons say, without an error, under the policy of the README', async () => {
  const folder = await makeFolder()
  cpSync(join(PACKAGE, 'example'), join(folder, 'example'), { recursive: true })
  cpSync(buildClient(folder), join(folder, 'dist'), { recursive: true })
  const service = await start({ env: { SLUICE_CORS_ORIGINS: '*' } })
  const [, policy = ''] =
    /^Content-Security-Policy: (.*)$/m.exec(readFileSync(join(PACKAGE, 'README.md'), 'utf8')) ?? []
  expect(policy).toContain('https://events.example.com')
  const site = await startSite(folder, policy.replace('https://events.example.com', urlOf(service)))
  onTestFinished(() => site.stop())
  const browser = await startBrowser()
  onTestFinished(() => browser.close())
  const page = await browser.newPage()
  const errors: string[] = []
  page.on('console', (message) => errors.push(message.text()))
  page.on('pageerror', (error) => errors.push(error.message))

  await page.goto(`${site.origin}/example/?key=ak_plain&url=${encodeURIComponent(urlOf(service))}`)
  for (const button of ['#track', '#revenue', '#flush']) await page.click(button)
  await page.getByText('all is stored').waitFor()
  const stored = storedEvents(service.dataDir).map((event) => event.name)
  expect(stored).toEqual(['example', 'click', 'purchase'])

  await page.click('#opt-out')
  await page.click('#track')
  await page.getByText('dropped 1: consent').waitFor()
  await page.click('#opt-in')
  await page.click('#track')
  await page.click('#flush')
  await eventually('the last is stored', () => storedEvents(service.dataDir).length === 4)
  expect(errors).toEqual([])
})
