// The script of the package in a page, as its README says, in a real Chromium against the service itself.

import { execFileSync } from 'node:child_process'
import { appendFileSync, cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { eventually, makeFolder } from '../support/service.ts'
import { inPage, startBrowser, startSite } from './support/browser.ts'
import { buildClient, start, storedEvents, urlOf } from './support/stored.ts'

const README = readFileSync(resolve(import.meta.dirname, '../../clients/typescript/README.md'), 'utf8')
const [, SNIPPET = ''] = /```html\n(.*?)```/s.exec(README) ?? []
const [, POLICY = ''] = /^Content-Security-Policy: (.*)$/m.exec(README) ?? []
const SERVICE = 'https://events.example.com'

/** A page with the README's snippet; `move`: with its own code in a file, under the README's policy. */
async function openPage({ move = false, tamper = false } = {}) {
  const service = await start({ env: { SLUICE_CORS_ORIGINS: '*' } })
  const folder = await makeFolder()
  const ours = (text: string): string => text.replace(SERVICE, urlOf(service)).replace('ak_demo_2f6c1d', 'ak_plain')
  cpSync(buildClient(folder), folder, { recursive: true })
  if (tamper) appendFileSync(join(folder, 'sluice.min.js'), ' ')
  const [tag, code] = SNIPPET.split(/<script>|<\/script>\n$/)
  writeFileSync(join(folder, 'page.js'), ours(code))
  const body = move ? `${tag}<script src="/page.js"></script>` : ours(SNIPPET)
  const icon = '<link rel="icon" href="data:,">'
  writeFileSync(join(folder, 'index.html'), `<!doctype html>${icon}<title>Shop</title>${body}`)
  const site = await startSite(folder, move ? `${ours(POLICY)}; img-src data:` : '')
  onTestFinished(() => site.stop())
  const browser = await startBrowser()
  onTestFinished(() => browser.close())
  const page = await browser.newPage()
  const errors: string[] = []
  page.on('console', (message) => errors.push(message.text()))
  page.on('pageerror', (error) => errors.push(error.message))
  await page.goto(`${site.origin}/`)
  return { page, errors, storedNames: () => storedEvents(service.dataDir).map((event) => event.name) }
}

it.each([false, true])('sends what the README tracks (in a file, under its policy: %s)', async (move) => {
  const { page, errors, storedNames } = await openPage({ move })
  expect(await inPage(page, 'client.flush()')).toBe(true)
  expect(storedNames()).toEqual(['start', 'signup', 'purchase'])
  expect(errors).toEqual([])
})

it('sends by itself, when the page is left', async () => {
  const { page, storedNames } = await openPage()
  await page.goto('about:blank')
  await eventually('all are stored', () => storedNames().length === 3)
})

it('is not run by the browser where it differs from its hash', async () => {
  const { page, errors, storedNames } = await openPage({ tamper: true })
  expect(await inPage(page, 'typeof sluice')).toBe('undefined')
  expect(errors.join('\n')).toContain('integrity')
  expect(storedNames()).toEqual([])
})

it('sends what the page tracks that the lines of docs/browsers.md make', async () => {
  const service = await start({ env: { SLUICE_CORS_ORIGINS: '*' } })
  const folder = await makeFolder()
  const built = buildClient(await makeFolder())
  const dist = join(folder, 'clients/typescript/dist')
  cpSync(built, dist, { recursive: true })
  const guide = readFileSync(resolve(import.meta.dirname, '../../docs/browsers.md'), 'utf8')
  const [, lines = ''] = /```sh\n( *mkdir -p site.*?)^ *python3 .*?```/ms.exec(guide) ?? []
  const script = lines.replaceAll(/^ {3}/gm, '').replace('http://localhost:8080', urlOf(service))
  execFileSync('bash', ['-euc', script], { cwd: folder, env: { ...process.env, KEY: 'ak_plain' } })
  const site = await startSite(join(folder, 'site'))
  onTestFinished(() => site.stop())
  const browser = await startBrowser()
  onTestFinished(() => browser.close())
  const page = await browser.newPage()
  await page.goto(`${site.origin}/`)
  await page.click('button')
  const names = (): unknown[] => storedEvents(service.dataDir).map((event) => event.name)
  await eventually('both are stored', () => names().length === 2)
  expect(names()).toEqual(['start', 'signup'])
})
