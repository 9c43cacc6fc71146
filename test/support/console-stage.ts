// The console's pages before a double of the admin API that has something of everything: a new double for each test.

import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'
import { busyDouble } from './console-data.ts'
import type { ConsoleDouble } from './console-double.ts'
import { launchBrowser, Pages } from './console-page.ts'

export interface ConsoleStage {
  /** Of the test that runs. */
  readonly double: ConsoleDouble
  readonly browser: Browser
  readonly open: (path: string, options?: BrowserContextOptions) => Promise<Page>
}

/** To be called once in a file, outside its tests. */
export function consoleStage(make: () => ConsoleDouble = busyDouble): ConsoleStage {
  let browser: Browser
  let double: ConsoleDouble
  let pages: Pages
  beforeAll(async () => {
    browser = await launchBrowser()
  })
  afterAll(() => browser?.close())
  beforeEach(async () => {
    double = await make().start()
    pages = new Pages(browser)
  })
  afterEach(async () => {
    double.stop()
    await pages.close()
  })
  return {
    get browser() {
      return browser
    },
    get double() {
      return double
    },
    open: (path, options = {}) => pages.open(double.url + path, options),
  }
}
