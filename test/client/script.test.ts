// The script for a page, as it is built.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { runInNewContext } from 'node:vm'
import { gzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { eventually, makeFolder } from '../support/service.ts'
import type { SentBody } from './support/double.ts'
import { buildClient } from './support/stored.ts'

const PACKAGE = resolve(import.meta.dirname, '../../clients/typescript')
const README = readFileSync(join(PACKAGE, 'README.md'), 'utf8')
const MAX_SCRIPT_BYTES = 8500

const { version } = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8')) as { version: string }
const built = buildClient(await makeFolder())
const read = (name: string): string => readFileSync(join(built, name), 'utf8')

it(`has at most ${MAX_SCRIPT_BYTES} bytes gzipped, and the README says how many`, () => {
  const script = readFileSync(join(built, 'sluice.min.js'))
  const bytes = gzipSync(script, { level: 9 }).length
  expect(bytes).toBeLessThanOrEqual(MAX_SCRIPT_BYTES)
  const [, whole, gzipped] = /sluice\.min\.js`? has ([\d.]+) KB, ([\d.]+) KB gzipped/.exec(README) ?? []
  expect(Number(whole)).toBeCloseTo(script.length / 1000, 1)
  // zlib's versions differ by some bytes.
  expect(Math.abs(Number(gzipped) - bytes / 1000)).toBeLessThan(0.1)
})

it('has the hash that lies beside it, and that the README gives', () => {
  const hash = createHash('sha384').update(read('sluice.min.js')).digest('base64')
  expect(read('sluice.min.js.integrity')).toBe(`sha384-${hash}\n`)
  expect([...README.matchAll(/integrity="([^"]*)"/g)].map(([, given]) => given)).toEqual([`sha384-${hash}`])
})

it('makes one global, and sends, in a browser of 2021', async () => {
  const requests: { url: string; body: string }[] = []
  const document = Object.assign(new EventTarget(), { visibilityState: 'visible' })
  const page = Object.assign(new EventTarget(), {
    document,
    navigator: { userAgent: 'Mozilla/5.0 (X11; Linux x86_64)', language: 'en-GB' },
    location: { origin: 'https://shop.example.com' },
    screen: { width: 1280, height: 800 },
    localStorage: undefined,
  })
  const fetchInPage = async (url: string, { body }: { body: string }): Promise<Response> => {
    requests.push({ url, body })
    return new Response('{"status":"accepted","events":2}', { status: 202 })
  }
  const { crypto, setTimeout, clearTimeout, Request, TextEncoder, URL, AbortController } = globalThis
  const given = { crypto, setTimeout, clearTimeout, Request, TextEncoder, URL, AbortController, fetch: fetchInPage }
  const { navigator, location, screen } = page
  const context: Record<string, unknown> = { window: page, document, navigator, location, screen, ...given }
  const names = Object.keys(context)
  runInNewContext(
    `for (const name of ['at', 'toSorted', 'toReversed', 'with', 'findLast']) delete Array.prototype[name]
     for (const name of ['hasOwn', 'groupBy']) delete Object[name]
     delete String.prototype.at;
     ${read('sluice.min.js')}
     client = sluice.createClient({ url: 'https://events.example.com', appKey: 'ak_demo' })
     client.screen('start')
     client.identify('user-17')
     client.register({ source: 'search', gone: 1 })
     client.unregister('gone')
     client.track('signup', { plan: 'yearly' })
     client.flush()`,
    context,
  )
  await eventually('it sends', () => requests.length > 0)
  expect(Object.keys(context).filter((name) => !names.includes(name))).toEqual(['sluice', 'client'])
  expect(requests[0].url).toBe('https://events.example.com/api/v1/events')
  const sent = JSON.parse(requests[0].body) as SentBody
  expect(sent.sdk_version).toBe(`sluice-client/${version}`)
  expect(sent.events).toMatchObject([
    { type: 'screen', name: 'start', context: { os: 'Linux', locale: 'en_GB', screen_width: 1280 } },
    { type: 'track', name: 'signup', user_id: 'user-17', properties: { source: 'search', plan: 'yearly' } },
  ])
})
