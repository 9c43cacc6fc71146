// Writes docs/console/*.png: the pages of the console and the portal. With --all, every page in every state at three widths,
// light and dark, to look at them side by side. The data is the tests' double's, and the time stands still: each run makes
// the same pictures.

import { mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { launchChromium, loadScenes } from '../test/support/load-scenes.js'

const { values: flags } = parseArgs({
  options: {
    out: { type: 'string', default: 'docs/console' },
    all: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
  },
})
const root = resolve(import.meta.dirname, '..')
const folder = resolve(root, flags.out)
const { NOW, SCENES } = await loadScenes()

const DESK = { width: 1400, height: 900 }
const SIZES = [DESK, { width: 1024, height: 800 }, { width: 390, height: 844 }]
const PHONE = SIZES[2]
/** @typedef {{ scene: string, scheme: 'light' | 'dark', size: typeof DESK, name: string }} Picture */

/** @returns {Picture[]} */
function wanted() {
  const names = Object.keys(SCENES).filter((name) => name.includes(flags.only))
  const schemes = /** @type {const} */ (['light', 'dark'])
  if (flags.all) {
    return names.flatMap((scene) =>
      SIZES.flatMap((size) =>
        schemes.map((scheme) => ({ scene, scheme, size, name: `${scene}-${size.width}-${scheme}` })),
      ),
    )
  }
  const shown = names.filter((scene) => SCENES[scene].isInDocs)
  const wide = shown.flatMap((scene) =>
    schemes.map((scheme) => ({ scene, scheme, size: DESK, name: `${scene}-${scheme}` })),
  )
  return [...wide, { scene: 'now', scheme: 'light', size: PHONE, name: 'now-phone' }]
}

mkdirSync(folder, { recursive: true })
const browser = await launchChromium()
try {
  for (const { scene, scheme, size, name } of wanted()) {
    const { double: make, path, prepare, before } = SCENES[scene]
    const double = await make().start()
    const page = await browser.newPage({
      viewport: size,
      colorScheme: scheme,
      reducedMotion: 'reduce',
      timezoneId: 'UTC',
    })
    page.setDefaultTimeout(20_000)
    try {
      await page.clock.setFixedTime(NOW)
      await before?.(double)
      await page.goto(double.url + path)
      await prepare?.(page, double)
      await page.evaluate('document.fonts.ready')
      await page.screenshot({ path: join(folder, `${name}.png`), animations: 'disabled' })
    } catch (error) {
      console.error(`${name}: ${error instanceof Error ? error.message.split('\n')[0] : 'failed'}`)
      process.exitCode = 1
      await page.screenshot({ path: join(folder, `${name}-failed.png`) })
    } finally {
      await page.close()
      double.stop()
    }
  }
} finally {
  await browser.close()
}
