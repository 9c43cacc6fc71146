// A real Chromium, and a site of another origin than the service's, whose pages have the client as a module.

import { execFileSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join, normalize } from 'node:path'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { onTestFinished } from 'vitest'
import { CHROMIUM } from '../../support/prerequisites.ts'

const TYPES: Record<string, string> = { '.js': 'text/javascript', '.html': 'text/html', '.css': 'text/css' }
/** A host whose pages are not secure, since it is not the loopback's own name: they lack crypto.randomUUID, for one. */
const PLAIN_HOST = 'shop.example'

export interface Site {
  /** http://127.0.0.1:PORT: as good as https. */
  readonly origin: string
  /** The same pages over plain http. */
  readonly plainOrigin: string
  stop(): void
}

/**
 * Serves a folder, /hang, which has no answer, and an empty page for each other path. `policy` is the pages' Content
 * Security Policy; `/csp?POLICY` is an empty page with that one.
 */
export async function startSite(folder: string, policy = ''): Promise<Site> {
  const server = createServer(async (request, response) => {
    const { pathname, search } = new URL(request.url ?? '/', 'http://site')
    if (pathname === '/hang') return
    // A page with an opaque origin loads even its own modules as another origin's.
    response.setHeader('Access-Control-Allow-Origin', '*')
    const given = pathname === '/csp' ? decodeURIComponent(search.slice(1)) : policy
    if (given !== '') response.setHeader('Content-Security-Policy', given)
    const path = pathname.endsWith('/') ? `${pathname}index.html` : pathname
    const file = await readFile(join(folder, normalize(path))).catch(() => null)
    response.setHeader('Content-Type', file ? (TYPES[extname(path)] ?? 'text/plain') : 'text/html')
    response.end(file ?? '<!doctype html><link rel="icon" href="data:,"><title>Page</title>')
  })
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo
  return {
    origin: `http://127.0.0.1:${port}`,
    plainOrigin: `http://${PLAIN_HOST}:${port}`,
    stop: () => server.close().closeAllConnections(),
  }
}

export function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: execFileSync('which', [CHROMIUM], { encoding: 'utf8' }).trim(),
    args: [`--host-resolver-rules=MAP ${PLAIN_HOST} 127.0.0.1`],
  })
}

/** A profile with a client in each of its pages, and what these said they dropped. */
export interface Profile {
  readonly context: BrowserContext
  readonly dropped: { readonly reason: string; readonly names: string[] }[]
  /** A page with a client as `sluice`. */
  open(url: string, options: object): Promise<Page>
  /** The same after the page went elsewhere. */
  start(page: Page, options: object): Promise<void>
}

/** It ends with the test. */
export async function startProfile(browser: Browser): Promise<Profile> {
  const context = await browser.newContext()
  onTestFinished(() => context.close())
  const dropped: Profile['dropped'] = []
  await context.exposeFunction('noteDropped', (reason: string, names: string[]) => dropped.push({ reason, names }))
  const start: Profile['start'] = async (page, options) => {
    await inPage(
      page,
      `import('/built/index.js').then(({ createClient }) => {
        window.sluice = createClient({
          ...${JSON.stringify(options)},
          onDropped: (reason, events) => noteDropped(reason, events.map((event) => event.name)),
        })
      })`,
    )
  }
  return {
    context,
    dropped,
    start,
    async open(url, options) {
      const page = await context.newPage()
      await page.goto(url)
      await start(page, options)
      return page
    },
  }
}

/** Runs an expression in the page. Its errors come as text, since vitest fails on the stack of a page's error. */
export async function inPage<T>(page: Page, expression: string): Promise<T> {
  const { value, failure }: { value: T; failure?: string } = await page.evaluate(
    `(async () => ({ value: await (${expression}) }))().catch((error) => ({ failure: String(error) }))`,
  )
  if (failure !== undefined) throw new Error(failure)
  return value
}
