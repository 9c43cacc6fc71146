// Each client library holds in every scenario of the kit, and in a page in those that need one. The tables are printed.

import { execFileSync } from 'node:child_process'
import { join, resolve } from 'node:path'
import { chromium } from 'playwright-core'
import { expect, it } from 'vitest'
import { runAll, tableOf } from '../../clients/conformance/main.js'
import { startSite } from '../client/support/browser.ts'
import { CHROMIUM } from '../support/prerequisites.ts'
import { makeFolder } from '../support/service.ts'

const CLIENTS = resolve(import.meta.dirname, '../../clients')
const DRIVERS = join(CLIENTS, 'conformance/drivers')

/** Of the pages of one browser. */
const PAGES_AT_ONCE = 12
/** Those in which a page differs from Node: its storage, its network, its compression, its end. Node runs all of them. */
const OF_PAGES = [
  'answer-never',
  'answer-drips',
  'stored',
  'without-flush',
  'many-bytes',
  'compressed',
  '503-with-retry-after',
  '429-day-outlasts-the-process',
  '400-invalid-events',
  '400-invalid-json',
  '401-origin',
  '415',
  'answer-lost-halfway',
  'connection-breaks',
  'no-connection',
  'clock-after-a-sleep',
  'opt-out-outlasts-the-process',
  'restart',
  'restart-while-a-request-is-under-way',
  'restart-respects-retry-after',
]

async function expectAllHeld(command: readonly string[], options: Parameters<typeof runAll>[1] = {}): Promise<void> {
  const results = await runAll(command, options)
  const table = tableOf(results)
  console.log(table)
  expect(
    results.filter(({ state }) => state !== 'held').map(({ name }) => name),
    table,
  ).toEqual([])
}

async function buildClient(): Promise<string> {
  const folder = await makeFolder()
  execFileSync(process.execPath, [join(CLIENTS, 'typescript/build.js'), folder], { stdio: 'pipe' })
  return folder
}

it('the TypeScript client holds on Node', async () => {
  const built = await buildClient()
  await expectAllHeld([process.execPath, join(DRIVERS, 'typescript.js'), built])
})

it('the Python client holds', async () => {
  await expectAllHeld(['python3', join(DRIVERS, 'python.py')])
})

it('the TypeScript client holds in pages of Chromium, where these differ from Node', async () => {
  const executablePath = execFileSync('which', [CHROMIUM], { encoding: 'utf8' }).trim()
  const site = await startSite(await buildClient())
  const browser = await chromium.launchServer({ executablePath })
  try {
    const driver = join(import.meta.dirname, 'chromium-driver.mjs')
    await expectAllHeld([process.execPath, driver, browser.wsEndpoint(), site.origin], {
      atOnce: PAGES_AT_ONCE,
      only: OF_PAGES,
    })
  } finally {
    await browser.close()
    site.stop()
  }
})
