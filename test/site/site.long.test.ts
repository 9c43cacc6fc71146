// The site, built and read in a real Chromium, on a phone and on a desk: nothing runs over its edge, search finds, code can be
// copied, it is dark where its reader's system is, the APIs are rendered, and nothing comes from another host.

import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { violations } from '../../src/decode/validator.ts'
import { DOORS, OPENAPI } from '../../tools/site/doors.js'
import { launchBrowser, Pages } from '../support/console-page.ts'

const SITE = fileURLToPath(new URL('../../tools/site/', import.meta.url))
const TYPES: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
}
const PAGES = DOORS.flatMap(({ pages }) => pages)
const SIZES = [
  { width: 390, height: 844 },
  { width: 1400, height: 900 },
]
const urlOf = (path: string): string => (path === 'README.md' ? '/' : `/${path.replace(/md$/, 'html')}`)

let server: Server | undefined
let browser: Browser | undefined
let pages: Pages
let origin = ''

beforeAll(async () => {
  execFileSync(process.execPath, [join(SITE, 'build.js')], { stdio: 'pipe' })
  const started = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? '/', 'http://site').pathname)
    const file = join(SITE, 'dist', path.endsWith('/') ? `${path}index.html` : path)
    readFile(file).then(
      (bytes) => response.writeHead(200, { 'Content-Type': TYPES[extname(file)] ?? 'text/plain' }).end(bytes),
      () => response.writeHead(404).end(),
    )
  })
  server = started
  await new Promise<void>((done) => started.listen(0, '127.0.0.1', done))
  origin = `http://127.0.0.1:${(started.address() as AddressInfo).port}`
  browser = await launchBrowser()
})
afterAll(async () => {
  await browser?.close()
  server?.close()
})
beforeEach(() => {
  pages = new Pages(browser as Browser)
})
afterEach(() => pages.close())

const overflowOf = (page: Page): Promise<number> =>
  page.evaluate<number>('document.documentElement.scrollWidth - document.documentElement.clientWidth')

describe.each(SIZES)('at $width px', ({ width, height }) => {
  it('no page runs over the edge, and each shows its title', async () => {
    const page = await pages.open(origin, { viewport: { width, height } })
    const wide: string[] = []
    for (const path of PAGES) {
      await page.goto(origin + urlOf(path))
      await page.locator('main h1').first().waitFor()
      if ((await overflowOf(page)) > 0) wide.push(path)
    }
    expect(wide).toEqual([])
  })

  it('search finds a page by a word in it', async () => {
    const page = await pages.open(origin, { viewport: { width, height } })
    await page.locator('.DocSearch-Button, .VPNavBarSearch button').first().click()
    await page.locator('#localsearch-input').fill('webhooks')
    await page.locator('.result[href*="docs/webhooks"]').first().click()
    await page.locator('main h1', { hasText: 'Alerts as webhooks' }).waitFor()
    expect(page.url()).toContain('/docs/webhooks')
  })

  it('is dark where the system is', async () => {
    const page = await pages.open(origin, { viewport: { width, height }, colorScheme: 'dark' })
    await page.locator('html.dark').waitFor()
    const background = await page.evaluate<string>('getComputedStyle(document.body).backgroundColor')
    expect(background).toMatch(/rgb\((?:[0-4]?\d), (?:[0-4]?\d), (?:[0-4]?\d)\)/)
  })

  it.each(OPENAPI)('$title is rendered', async ({ name, file }) => {
    const page = await pages.open(`${origin}/api/${name}.html`, { viewport: { width, height } })
    await page.locator('.opblock').first().waitFor()
    expect(await page.locator(`nav a[href="../${file}"]`).count()).toBe(1)
    expect(await overflowOf(page)).toBe(0)
  })
})

it('each block of code has a button that copies it', async () => {
  const page = await pages.open(`${origin}/docs/sdk.html`, { permissions: ['clipboard-read', 'clipboard-write'] })
  const blocks = page.locator('main div[class*="language-"]')
  expect(await blocks.count()).toBeGreaterThan(0)
  expect(await page.locator('main button.copy').count()).toBe(await blocks.count())
  await blocks.first().hover()
  await page.locator('main button.copy').first().click()
  const copied = await page.evaluate<string>('navigator.clipboard.readText()')
  expect(copied.trim()).toBe((await blocks.first().locator('pre code').innerText()).trim())
})

describe('explain', () => {
  const judged = async (body: string): Promise<{ verdict: string; list: string[] }> => {
    const page = await pages.open(`${origin}/explain.html`, { viewport: { width: 390, height: 844 } })
    await page.locator('#body').fill(body)
    const verdict = (await page.locator('#verdict', { hasText: /^\d/ }).textContent()) ?? ''
    expect(await overflowOf(page)).toBe(0)
    return { verdict, list: await page.locator('#list li').allTextContents() }
  }
  const track = {
    type: 'track',
    name: 'x',
    session_id: 's',
    timestamp: new Date().toISOString(),
    context: { os: 'Größe' },
  }
  const ids = Object.fromEntries(
    ['daily', 'monthly', 'retention'].map((period) => [`hashed_${period}_id`, 'a'.repeat(16)]),
  )
  const bodyOf = (...events: object[]): string => JSON.stringify({ app_key: 'ak_x', events }, null, 1)

  it('says of a body that fits how many events it has', async () => {
    const { verdict, list } = await judged(bodyOf({ ...track, ...ids }, { ...track, ...ids }))
    expect(verdict).toContain('202: the body fits, with 2 events')
    expect(list).toEqual([])
  })

  it('names each member that is wrong, by the words of the service', async () => {
    const text = bodyOf(
      { ...track, ...ids },
      { ...track, ...ids, name: 7, type: 'click' },
      { ...track, ...ids, naïve: 1, session_id: '' },
    )
    const { verdict, list } = await judged(text)
    const service = violations(Buffer.from(text), Date.now(), null)
    if (service.code === null) throw new Error('the body fits')
    expect(verdict).toBe(`400 ${service.code}: ${service.message}. Without the events at 1, 2 it would fit.`)
    const line = (start: number): number => Buffer.from(text).subarray(0, start).toString().split('\n').length
    expect(list).toEqual(
      service.found.map(({ path, message, start }) => `${path}, line ${line(start as number)}: ${message}`),
    )
    expect(list.length).toBe(3)
  })

  it('says where a text is no JSON, and takes less than 200 KB', async () => {
    expect((await judged('{"app_key": "ak_x", "events": [')).verdict).toMatch(/^400 invalid_json: /)
    expect((await (await fetch(`${origin}/explain.js`)).arrayBuffer()).byteLength).toBeLessThan(200_000)
  })
})

it('each page is there as Markdown too, and in the list for programs', async () => {
  const list = await (await fetch(`${origin}/llms.txt`)).text()
  for (const path of PAGES) {
    expect(list).toContain(`](${path})`)
    expect(existsSync(join(SITE, 'dist', path)), path).toBe(true)
  }
})
