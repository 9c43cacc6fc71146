// Writes docs/console/*.png: each view of the console, light and dark, and one on a phone. The data is the tests' double's.

import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { build } from 'esbuild'
import { chromium } from 'playwright-core'

const { values: flags } = parseArgs({ options: { out: { type: 'string', default: 'docs/console' } } })
const root = resolve(import.meta.dirname, '..')
const folder = resolve(root, flags.out)
// Not every Node runs TypeScript. As deep in the tree as its source, so that it finds dist/.
const double = join(root, '.cache', 'screenshots', 'console-data.mjs')
await build({
  entryPoints: [join(root, 'test', 'support', 'console-data.ts')],
  outfile: double,
  bundle: true,
  platform: 'node',
  format: 'esm',
})
/** @type {typeof import('../test/support/console-data.ts')} */
const { BATCH_ID, busyDouble, sampledEvent } = await import(double)

const BODY = JSON.stringify(
  {
    app_key: 'ak_shop_91b2c4',
    events: [
      { type: 'track', session_id: 's-1', context: { os: 'ios' } },
      { type: 'track', name: 'product_viewed', context: { os: '' }, properties: { colour: 'a very long text …' } },
    ],
  },
  null,
  2,
)

/** @type {Record<string, { path: string, prepare?: (page: import('playwright-core').Page) => Promise<void> }>} */
const VIEWS = {
  now: {
    path: '/',
    prepare: async (page) => {
      await page.locator('.plot canvas').nth(5).waitFor()
    },
  },
  events: {
    path: '/events',
    prepare: async (page) => {
      await page.locator('.event-row').nth(4).click()
      await page.locator('.detail').waitFor()
    },
  },
  refused: { path: '/refused' },
  batch: { path: `/batch?id=${BATCH_ID}` },
  apps: { path: '/apps' },
  explain: {
    path: '/explain',
    prepare: async (page) => {
      await page.getByLabel('A body as an SDK sends it').fill(BODY)
      await page.getByRole('button', { name: 'explain', exact: true }).click()
      await page.locator('mark').first().waitFor()
    },
  },
}

const WIDE = { width: 1280, height: 660 }
const PHONE = { width: 390, height: 780 }
const PICTURES = Object.keys(VIEWS).flatMap((view) => [
  { view, scheme: 'light', size: WIDE },
  { view, scheme: 'dark', size: WIDE },
])

mkdirSync(folder, { recursive: true })
const service = await busyDouble().start()
const browser = await chromium.launch({
  executablePath: execFileSync('which', ['chromium-headless-shell'], { encoding: 'utf8' }).trim(),
})
try {
  for (const { view, scheme, size } of [...PICTURES, { view: 'now', scheme: 'phone', size: PHONE }]) {
    const colorScheme = scheme === 'dark' ? 'dark' : 'light'
    const page = await browser.newPage({ viewport: size, colorScheme, reducedMotion: 'reduce', timezoneId: 'UTC' })
    const { path, prepare } = VIEWS[view]
    await page.goto(service.url + path)
    await page.getByText('Healthy').first().waitFor()
    if (view === 'events') await sendEvents(page)
    if (view === 'refused') await page.locator('.refusal-row').first().waitFor()
    if (view === 'apps') await page.locator('.app-row').first().waitFor()
    await prepare?.(page)
    await page.screenshot({ path: join(folder, `${view}-${scheme}.png`) })
    await page.close()
  }
} finally {
  await browser.close()
  service.stop()
}

/** @param {import('playwright-core').Page} page */
async function sendEvents(page) {
  while (service.listeners('/api/events/stream') === 0) await new Promise((done) => void setTimeout(done, 20))
  for (let number = 0; number < 60; number++) service.send('/api/events/stream', 'event', sampledEvent(number))
  service.send('/api/events/stream', 'rate', { seen_per_second: 12_480, shown_per_second: 50 })
  await page.locator('.event-row').nth(10).waitFor()
}
