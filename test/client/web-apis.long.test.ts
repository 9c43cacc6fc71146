// The rows of web-apis.test.ts in a real Chromium, one page each, on another origin than the service itself.

import type { Browser, Frame, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { appRecord, eventually, makeFolder, type Service, startService } from '../support/service.ts'
import { AWAY, BROKEN, type Broken, PRELUDE, startCode } from './support/broken.ts'
import { type Site, startBrowser, startSite } from './support/browser.ts'
import { buildScript } from './support/fake-browser.ts'
import { storedEvents, urlOf } from './support/stored.ts'

/** At a time. */
const PAGES = 8

interface Seen {
  readonly thrown: string[]
  readonly dropped: string[]
  readonly held: string[]
}

interface Outcome extends Seen {
  readonly stored: string[]
}

let site: Site
let browser: Browser
let service: Service
let script: string

beforeAll(async () => {
  script = await buildScript()
  site = await startSite(await makeFolder())
  service = await startService({
    apps: [appRecord('plain', { events_per_minute: 1_000_000 })],
    env: { SLUICE_CORS_ORIGINS: '*' },
  })
  browser = await startBrowser()
})

afterAll(async () => {
  await browser?.close()
  site?.stop()
})

/** Runs a script in the page, whatever it has made of its globals. */
async function run<T>(frame: Frame, code: string): Promise<T> {
  return (await frame.evaluate(code)) as T
}

async function frameOf(page: Page, { frame }: Broken): Promise<Frame> {
  await page.goto(site.origin)
  if (frame === undefined) return page.mainFrame()
  const source = frame === 'srcdoc' ? `element.srcdoc = '<p>frame'` : `element.src = 'about:blank'`
  await page.evaluate(
    `new Promise((loaded) => { const element = document.createElement('iframe'); element.onload = loaded; ${source}; document.body.append(element) }).then(() => {})`,
  )
  return page.frames()[1]
}

async function play(row: Broken): Promise<Outcome> {
  const context = await browser.newContext()
  const page = await context.newPage()
  const frame = await frameOf(page, row)
  const url = urlOf(service)
  const storedNames = (): string[] =>
    storedEvents(service.dataDir)
      .map(({ name }) => name)
      .filter((name) => name.startsWith(`${row.what} `))
      .toSorted()
  await run(frame, `${PRELUDE}; ${row.later ? AWAY : `{ ${row.code} }`}; 0`)
  await run(frame, `(0, eval)(${JSON.stringify(script)}); 0`)
  await run(frame, `${startCode(`${url}/api/v1/events`, url, row.what, row)}; 0`)
  const flush = (): Promise<number> => run(frame, `client.flush().catch(note); 0`)
  if (row.later) {
    await flush()
    await run(frame, `{ ${row.code} }; away = false; 0`)
  }
  const look = (): Promise<Seen> =>
    run(frame, '({ thrown: [...seen.thrown], dropped: [...seen.dropped], held: [...seen.held] })')
  await eventually(row.what, async () => {
    await flush()
    const { dropped, held } = await look()
    const isTold = row.ends === 'held' ? held.length > 0 : row.ends === 'invalid' && dropped.length > 0
    return isTold || storedNames().length >= 2
  })
  const seen = await look()
  if (row.ends === 'held') {
    await page.goto('about:blank')
    await eventually(`${row.what}, at its end`, () => storedNames().length >= 2)
  }
  await context.close()
  return { ...seen, stored: storedNames() }
}

it('of each page that has broken what the client uses, all is sent that can be, and the rest is reported', async () => {
  const outcomes = new Map<Broken, Outcome | string>()
  const left = [...BROKEN]
  onTestFinished(() => void left.splice(0))
  const work = async (): Promise<void> => {
    for (let row = left.shift(); row !== undefined; row = left.shift())
      outcomes.set(row, await play(row).catch((error: unknown) => `failed: ${String(error)}`))
  }
  await Promise.all(Array.from({ length: PAGES }, work))
  const expected = BROKEN.map(({ what, ends }) => ({
    what,
    thrown: [],
    dropped: ends === 'invalid' ? ['invalid', 'invalid'] : [],
    held: ends === 'held' ? ['no_answer'] : [],
    stored: ends === 'invalid' ? [] : [`${what} large`, `${what} small`],
  }))
  const found = BROKEN.map((row) => {
    const outcome = outcomes.get(row)!
    if (typeof outcome === 'string') return { what: row.what, outcome }
    const { thrown, dropped, held, stored } = outcome
    return { what: row.what, thrown, dropped, held: [...new Set(held)], stored }
  })
  expect(found).toEqual(expected)
})
