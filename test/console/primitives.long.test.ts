// The page of all primitives, photographed in both colour schemes and at three widths. None is missing on it.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import axe from 'axe-core'
import { build } from 'esbuild'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launchBrowser } from '../support/console-page.ts'

const WEB = resolve(import.meta.dirname, '../../src/console/web')
const OUT = resolve(import.meta.dirname, '../../.cache/primitives')
/** Of pages, dialogs and of the frame, which the other pages show. */
const ELSEWHERE =
  /^(shell|side|foot|brand|word|top|alone|fill-window|scroll|wide|narrow|reader|rows|floating|track|left|last|woff2|css)$/

let browser: Browser

beforeAll(async () => {
  browser = await launchBrowser()
  mkdirSync(OUT, { recursive: true })
  await build({
    entryPoints: [join(import.meta.dirname, 'primitives.tsx')],
    tsconfig: join(WEB, 'tsconfig.json'),
    outdir: OUT,
    bundle: true,
    loader: { '.woff2': 'file' },
  })
  const head = '<title>Primitives</title><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
  const body = '<link rel="stylesheet" href="primitives.css"><body></body><script src="primitives.js"></script>'
  writeFileSync(join(OUT, 'index.html'), `<!doctype html><html lang="en">${head}${body}</html>`)
})
afterAll(() => browser?.close())

test.each(['light', 'dark'] as const)(
  'all of them in the %s scheme, without a serious finding of axe',
  async (colorScheme) => {
    for (const width of [1400, 1024, 390]) {
      const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme })
      try {
        await page.goto(`file://${OUT}/index.html`)
        await page.locator('.way').waitFor()
        await page.evaluate('document.fonts.ready')
        const picture = await page.screenshot({ path: join(OUT, `${width}-${colorScheme}.png`), fullPage: true })
        expect(picture.length).toBeGreaterThan(20_000)
        expect(await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0)
        expect(await page.evaluate<boolean>(`document.fonts.check('500 13px Inter')`)).toBe(true)
        await page.evaluate(axe.source)
        const found = await page.evaluate<string[]>(
          `axe.run().then(({ violations }) => violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
          .map(({ id, nodes }) => id + ': ' + nodes[0].html))`,
        )
        expect(found).toEqual([])
      } finally {
        await page.close()
      }
    }
  },
)

test('every class of the style sheet is on it, or of the frame of the pages', async () => {
  const page = await browser.newPage()
  await page.goto(`file://${OUT}/index.html`)
  await page.locator('.way').waitFor()
  const used = new Set(
    await page.evaluate<string[]>(`[...document.querySelectorAll('[class]')].flatMap((one) => [...one.classList])`),
  )
  const names = readFileSync(join(WEB, 'style.css'), 'utf8').match(/(?<=[\s.:(&,>*]\.|^\.|&\.)[a-z][a-z0-9-]*/gm) ?? []
  const missing = [...new Set(names)].filter((name) => !used.has(name) && !ELSEWHERE.test(name))
  expect(names.length).toBeGreaterThan(50)
  expect(missing).toEqual([])
  await page.close()
})
