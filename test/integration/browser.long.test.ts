// Web pages of another origin in a real Chromium: what they send gets into the queue, from a cold preflight cache and while
// the page is left. A beacon that returns true proves nothing, so the queue is read.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ended, readPage } from '../support/hostile.ts'
import { readJournal, type StoredRecord } from '../support/journal-files.ts'
import { CHROMIUM } from '../support/prerequisites.ts'
import { appRecord, eventually, type Service, startService } from '../support/service.ts'

const APPS = [appRecord('plain'), appRecord('minute', { events_per_minute: 1 })]

/** The functions that a page of the tests has. */
const SCRIPT = `
  function bodyOf(name, appKey = 'ak_plain', events = 1) {
    const event = {
      type: 'track', name, hashed_daily_id: 'd'.repeat(32), hashed_monthly_id: 'm'.repeat(32),
      session_id: 's', timestamp: new Date().toISOString(), context: { os: 'web' },
    }
    return JSON.stringify({ app_key: appKey, events: Array(events).fill(event) })
  }
  async function post(url, body, headers = {}, options = {}) {
    const all = { 'Content-Type': 'application/json', ...headers }
    const answer = await fetch(url, { method: 'POST', headers: all, body, ...options })
    return { ...(await answer.json()), status: answer.status, headers: Object.fromEntries(answer.headers) }
  }
  function gzip(text) {
    return new Response(new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'))).blob()
  }
  // When the page is left, as it is on a phone or by a link.
  function whenLeft(send) {
    addEventListener('pagehide', send)
  }
`

/** The answer as the page may read it. */
interface Read {
  readonly status: number
  readonly headers: Record<string, string>
  readonly error?: string
  readonly deduplicated?: boolean
}

/** Two sites with the same page. */
const sites: Server[] = []
const origins: string[] = []
const services: Service[] = []
let named: Service
let any: Service
let unset: Service
let browser: Browser
let context: BrowserContext
let page: Page

beforeAll(async () => {
  for (let site = 0; site < 2; site++) {
    const server = createServer((_, response) => {
      response
        .setHeader('Content-Type', 'text/html')
        .end(`<!doctype html><title>Page</title><script>${SCRIPT}</script>`)
    })
    sites.push(server)
    await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done))
    origins.push(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  }
  const start = async (env: Record<string, string>): Promise<Service> => {
    const service = await startService({ apps: APPS, env })
    services.push(service)
    return service
  }
  named = await start({ SLUICE_CORS_ORIGINS: origins[0] })
  any = await start({ SLUICE_CORS_ORIGINS: '*' })
  unset = await start({})
  browser = await chromium.launch({ executablePath: execFileSync('which', [CHROMIUM], { encoding: 'utf8' }).trim() })
})

afterAll(async () => {
  await browser?.close()
  for (const server of sites) server.close().closeAllConnections()
})

// A profile of its own, whose caches are empty.
beforeEach(async () => {
  context = await browser.newContext()
  page = await context.newPage()
  await page.goto(`${origins[0]}/`)
})

afterEach(() => context.close())

/** Runs an expression in the page. Its errors come as text, since vitest fails on the stack of a page's error. */
async function inPage(expression: string): Promise<Read> {
  const { value, failure }: { value: Read; failure?: string } = await page.evaluate(
    `(async () => ({ value: await (${expression}) }))().catch((error) => ({ failure: String(error) }))`,
  )
  if (failure !== undefined) throw new Error(failure)
  return value
}

function urlOf(service: Service, query = ''): string {
  return JSON.stringify(`http://127.0.0.1:${service.port}/api/v1/events${query}`)
}

function stored(service: Service, name: string): StoredRecord[] {
  return readJournal(service.dataDir).filter(({ line }) => line.includes(`"name":"${name}"`))
}

function expectStored(service: Service, name: string): Promise<void> {
  return eventually(`${name} is in the queue`, () => stored(service, name).length > 0)
}

async function count(service: Service, code: string): Promise<number> {
  return ended(await readPage(service), code)
}

/** A link to the other site is followed. */
async function leave(): Promise<void> {
  await page.evaluate(`location.href = ${JSON.stringify(`${origins[1]}/next`)}`)
  await page.waitForURL(`${origins[1]}/next`)
}

describe('from a page whose origin is named', () => {
  test('fetch gets in, and the page reads the answer; the browser asks once for several', async () => {
    const before = await count(named, 'preflight')
    const answer = await inPage(`post(${urlOf(named)}, bodyOf('fetched'))`)
    expect(answer.status).toBe(202)
    expect(Object.keys(answer.headers)).toEqual(
      expect.arrayContaining(['date', 'x-batch-id', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']),
    )
    expect(stored(named, 'fetched')).toHaveLength(1)
    expect((await inPage(`post(${urlOf(named)}, bodyOf('again'))`)).status).toBe(202)
    expect(await count(named, 'preflight')).toBe(before + 1)
  })

  test('a repeat under the same Idempotency-Key is not stored again', async () => {
    const send = `post(${urlOf(named)}, bodyOf('keyed'), { 'Idempotency-Key': '7f0e0bb2-6c3a-4d5e-9a53-2a6a4d1c9a10' })`
    expect(await inPage(send)).not.toHaveProperty('deduplicated')
    expect((await inPage(send)).deduplicated).toBe(true)
    expect(stored(named, 'keyed')).toHaveLength(1)
  })

  test('a refusal can be read, with its wait and its id', async () => {
    const answer = await inPage(`post(${urlOf(named)}, bodyOf('no', 'ak_minute', 2))`)
    expect(answer).toMatchObject({ status: 429, error: 'rate_limit_exceeded' })
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
    expect(answer.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
  })

  test('gzip of CompressionStream gets in', async () => {
    const send = `gzip(bodyOf('packed')).then((body) => post(${urlOf(named)}, body, { 'Content-Encoding': 'gzip' }))`
    expect((await inPage(send)).status).toBe(202)
    expect(stored(named, 'packed')).toHaveLength(1)
  })

  test('keepalive: a fetch of JSON gets in while the page is left, after its preflight', async () => {
    const before = await count(named, 'preflight')
    await inPage(`whenLeft(() => void post(${urlOf(named)}, bodyOf('kept'), {}, { keepalive: true }))`)
    await leave()
    await expectStored(named, 'kept')
    expect(await count(named, 'preflight')).toBe(before + 1)
  })

  test('a beacon of a string gets in while the page is left, without a preflight, and its key counts', async () => {
    const before = await count(named, 'preflight')
    const key = '0190d8a2-7d5e-7c3f-8a1b-0123456789ab'
    await inPage(`whenLeft(() => navigator.sendBeacon(${urlOf(named, `?key=${key}`)}, bodyOf('beacon')))`)
    await leave()
    await expectStored(named, 'beacon')
    expect(await count(named, 'preflight')).toBe(before)
    await page.goto(`${origins[0]}/`)
    const again = await inPage(`post(${urlOf(named)}, bodyOf('beacon'), { 'Idempotency-Key': '${key}' })`)
    expect(again.deduplicated).toBe(true)
    expect(stored(named, 'beacon')).toHaveLength(1)
  })

  test('the code of docs/browsers.md works, and both of its ways count as one batch under one key', async () => {
    const text = readFileSync(new URL('../../docs/browsers.md', import.meta.url), 'utf8')
    const code = (/```js\n(.*?)```/s.exec(text)?.[1] ?? '').replace(
      "'https://events.example.com/api/v1/events'",
      urlOf(named),
    )
    await page.addScriptTag({ content: `${code}; const KEY = crypto.randomUUID()` })
    await inPage(`whenLeft(() => sendLast(JSON.parse(bodyOf('documented')), KEY))`)
    expect(await inPage(`send(JSON.parse(bodyOf('documented')), KEY).then((answer) => answer.json())`)).toEqual({
      status: 'accepted',
      events: 1,
    })
    const before = await count(named, 'replayed')
    await leave()
    await eventually('the beacon is a replay', async () => (await count(named, 'replayed')) === before + 1)
    expect(stored(named, 'documented')).toHaveLength(1)
  })

  test('a compressed beacon gets in while the page is left', async () => {
    await inPage(`gzip(bodyOf('packed beacon')).then((packed) => {
      const body = new Blob([packed], { type: 'text/plain;charset=UTF-8' })
      whenLeft(() => navigator.sendBeacon(${urlOf(named, '?encoding=gzip')}, body))
    })`)
    await leave()
    await expectStored(named, 'packed beacon')
  })

  test('credentials never: a fetch that includes them is refused by the browser', async () => {
    await context.addCookies([{ name: 'a', value: 'b', url: `http://127.0.0.1:${named.port}` }])
    await expect(inPage(`post(${urlOf(named)}, bodyOf('cookies'), {}, { credentials: 'include' })`)).rejects.toThrow(
      'Failed to fetch',
    )
    expect(stored(named, 'cookies')).toEqual([])
  })
})

describe('from any other page', () => {
  beforeEach(() => page.goto(`${origins[1]}/`))

  test('nothing gets in, with a preflight or without one', async () => {
    const [refused, asked] = [await count(named, 'unsupported_media_type'), await count(named, 'method_not_allowed')]
    await expect(inPage(`post(${urlOf(named)}, bodyOf('strange'))`)).rejects.toThrow('Failed to fetch')
    await inPage(`void navigator.sendBeacon(${urlOf(named)}, bodyOf('strange'))`)
    await expect(inPage(`fetch(${urlOf(named)}, { method: 'POST', body: bodyOf('strange') })`)).rejects.toThrow(
      'Failed to fetch',
    )
    await eventually('both are refused', async () => (await count(named, 'unsupported_media_type')) === refused + 2)
    expect(await count(named, 'method_not_allowed')).toBe(asked + 1)
    expect(stored(named, 'strange')).toEqual([])
  })

  test('all gets in where every origin may send', async () => {
    expect((await inPage(`post(${urlOf(any)}, bodyOf('anyone'))`)).status).toBe(202)
    await inPage(`whenLeft(() => navigator.sendBeacon(${urlOf(any)}, bodyOf('left')))`)
    await page.goto(`${origins[0]}/`)
    await expectStored(any, 'left')
  })
})

test('without the setting no page gets anything in', async () => {
  await expect(inPage(`post(${urlOf(unset)}, bodyOf('unset'))`)).rejects.toThrow('Failed to fetch')
  await inPage(`void navigator.sendBeacon(${urlOf(unset)}, bodyOf('unset'))`)
  await eventually('the beacon is refused', async () => (await count(unset, 'unsupported_media_type')) === 1)
  expect(await count(unset, 'method_not_allowed')).toBe(1)
  expect(stored(unset, 'unset')).toEqual([])
})
