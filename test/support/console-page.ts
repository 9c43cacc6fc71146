// Pages of the console in a real Chromium. It is noted what they must never do: an error, a breach of its content
// security policy, or a request to another host.

import { execFileSync } from 'node:child_process'
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Locator,
  type Page,
} from 'playwright-core'
import { CHROMIUM } from './prerequisites.ts'

/** Of a connection that ends, or of an answer that is no 200: the page says so itself. */
const EXPECTED = /Failed to load resource|net::ERR/

export function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: execFileSync('which', [CHROMIUM], { encoding: 'utf8' }).trim() })
}

export class Pages {
  private readonly browser: Browser
  private readonly contexts: BrowserContext[] = []
  private readonly faults: string[] = []

  constructor(browser: Browser) {
    this.browser = browser
  }

  /** With a profile of its own. */
  async open(url: string, options: BrowserContextOptions = {}): Promise<Page> {
    const context = await this.browser.newContext({ reducedMotion: 'reduce', ...options })
    this.contexts.push(context)
    const page = await context.newPage()
    page.setDefaultTimeout(90_000)
    page.on('pageerror', (error) => this.faults.push(`error: ${error.message}`))
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type()) && !EXPECTED.test(message.text())) {
        this.faults.push(`${message.type()}: ${message.text()}`)
      }
    })
    const { origin } = new URL(url)
    page.on('request', (request) => {
      if (!/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== origin) {
        this.faults.push(`request: ${request.url()}`)
      }
    })
    await page.goto(url)
    return page
  }

  /** Throws what the pages did and must not do. */
  async close(): Promise<void> {
    await Promise.all(this.contexts.map((context) => context.close()))
    if (this.faults.length > 0) throw new Error(this.faults.join('\n'))
  }
}

/** `page`: or a part of it. */
export function expectShown(page: Page | Locator, text: string | RegExp): Promise<void> {
  return page.getByText(text).first().waitFor()
}
