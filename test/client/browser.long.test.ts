// The client in a real Chromium, on pages of another origin, against the service itself. The journal says what came of it:
// each event is stored once, or reported as dropped.

import { writeFile } from 'node:fs/promises'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { batch, post, single } from '../support/client.ts'
import { ended, readPage } from '../support/hostile.ts'
import { appRecord, eventually, makeFolder, roomInMinute, type Service, startService } from '../support/service.ts'
import { inPage, type Profile, type Site, startBrowser, startProfile, startSite } from './support/browser.ts'
import { buildClient, freePort, start, storedEvents, urlOf } from './support/stored.ts'

const APPS = [appRecord('plain'), appRecord('probe')]

let site: Site
let browser: Browser
let service: Service
let profile: Profile
let tests = 0

beforeAll(async () => {
  const folder = await makeFolder()
  buildClient(folder)
  site = await startSite(folder)
  service = await startService({ apps: APPS, env: { SLUICE_CORS_ORIGINS: '*' } })
  browser = await startBrowser()
})

afterAll(async () => {
  await browser?.close()
  site?.stop()
})

beforeEach(async () => {
  tests++
  profile = await startProfile(browser)
})

function optionsFor(to: { port: number }): object {
  return { url: urlOf(to), appKey: 'ak_plain' }
}

/** Names that no other test has. */
function namesOf(label: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${tests} ${label} ${index}`)
}

function track(page: Page, names: readonly string[], properties: object = {}): Promise<void> {
  const each = `(name) => sluice.track(name, ${JSON.stringify(properties)})`
  return inPage(page, `${JSON.stringify(names)}.forEach(${each})`)
}

function flush(page: Page): Promise<boolean> {
  return inPage(page, 'sluice.flush()')
}

/** Names of this test's stored events, once for each time that they are stored. */
function storedNames({ dataDir }: Service): string[] {
  return storedEvents(dataDir)
    .map((event) => event.name)
    .filter((name) => name.startsWith(`${tests} `))
}

function areStored(to: Service, names: readonly string[]): boolean {
  const stored = new Set(storedNames(to))
  return names.every((name) => stored.has(name))
}

function expectStoredOnce(to: Service, names: readonly string[]): void {
  expect(storedNames(to).toSorted()).toEqual([...names].toSorted())
}

/** Batches in the page's storage. */
function waiting(page: Page): Promise<number> {
  return inPage(page, `Object.keys(localStorage).filter((name) => /:b\\d+-/.test(name)).length`)
}

async function leave(page: Page, to: string, work = ''): Promise<void> {
  await page.evaluate(`${work}; location.href = ${JSON.stringify(to)}`)
  await page.waitForURL(to)
}

describe('a page', () => {
  it('sends all types of events, compressed where they are many, each stored once', async () => {
    const page = await profile.open(site.origin, optionsFor(service))
    const names = namesOf('scroll', 250)
    await track(page, names, { text: 'é'.repeat(300) })
    const [screen, revenue] = namesOf('other', 2)
    await inPage(page, `(sluice.screen('${screen}'), sluice.revenue('${revenue}', { amount: 9.99, currency: 'EUR' }))`)
    expect(await flush(page)).toBe(true)
    expectStoredOnce(service, [...names, screen, revenue])
    expect(profile.dropped).toEqual([])
    expect(await waiting(page)).toBe(0)
  })

  it('offline keeps its events, and sends them when it is online again', async () => {
    const page = await profile.open(site.origin, optionsFor(service))
    const names = namesOf('offline', 130)
    await profile.context.setOffline(true)
    await track(page, names)
    expect(await flush(page)).toBe(false)
    expect(await waiting(page)).toBe(2)
    await profile.context.setOffline(false)
    await eventually('the page sends by itself', () => areStored(service, names))
    await eventually('nothing waits', async () => (await waiting(page)) === 0)
    expectStoredOnce(service, names)
  })

  it('loses nothing and doubles nothing while the service is killed with -9 and comes back', async () => {
    const env = { PORT: String(await freePort()), SLUICE_CORS_ORIGINS: '*' }
    let killed = await start({ apps: APPS, env })
    const { dataDir } = killed
    const page = await profile.open(site.origin, optionsFor(killed))
    const names: string[] = []
    for (let round = 0; round < 3; round++) {
      const [some, more] = [namesOf(`before ${round}`, 800), namesOf(`after ${round}`, 150)]
      names.push(...some, ...more)
      await track(page, some, { text: 'x'.repeat(200) })
      await inPage(page, 'void sluice.flush()')
      await eventually('some are stored', () => storedNames(killed).includes(some[0]))
      await killed.kill()
      await track(page, more)
      killed = await start({ dataDir, env })
      await eventually('the rest is taken', () => flush(page))
    }
    expectStoredOnce(killed, names)
    expect(profile.dropped).toEqual([])
  })

  it('drops the one bad event of ten, stores the nine, and reports the one with the next batch', async () => {
    const page = await profile.open(site.origin, optionsFor(service))
    const bodies: string[] = []
    page.on('request', (request) => bodies.push(request.postData() ?? ''))
    const names = namesOf('good', 9)
    const bad = `${tests} ${'x'.repeat(200)}`
    await track(page, [...names.slice(0, 4), bad, ...names.slice(4)])
    expect(await flush(page)).toBe(true)
    expectStoredOnce(service, names)
    await eventually('the page tells of it', () => profile.dropped.length > 0)
    expect(profile.dropped).toEqual([{ reason: 'invalid', names: [bad] }])
    const [next] = namesOf('next', 1)
    await track(page, [next])
    expect(await flush(page)).toBe(true)
    expectStoredOnce(service, [...names, next])
    expect(JSON.parse(bodies.findLast((body) => body !== '') ?? '')).toMatchObject({
      client_report: { dropped: { invalid: 1 } },
      events: [{ name: next }],
    })
  })

  it('obeys Retry-After, over a reload too, and then sends', async () => {
    const limited = await start({
      apps: [appRecord('plain', { events_per_minute: 10 })],
      env: { SLUICE_CORS_ORIGINS: '*' },
    })
    await profile.context.clock.install({ time: Date.now() })
    await roomInMinute(15)
    const page = await profile.open(site.origin, optionsFor(limited))
    const [first, second] = [namesOf('first', 5), namesOf('second', 8)]
    await track(page, first)
    expect(await flush(page)).toBe(true)
    // Another client of the app, so that nothing has told this one that little is left.
    expect((await post(limited, batch('ak_plain', 5))).status).toBe(202)
    await track(page, second)
    for (let attempt = 0; attempt < 3; attempt++) expect(await flush(page)).toBe(false)
    await page.reload()
    await profile.start(page, optionsFor(limited))
    for (let attempt = 0; attempt < 3; attempt++) expect(await flush(page)).toBe(false)
    expect(ended(await readPage(limited), 'rate_limit_exceeded')).toBe(1)
    expectStoredOnce(limited, first)
    // So that the test need not wait for the next minute; the page's clock goes on in its place.
    await writeFile(limited.appsFile, JSON.stringify({ apps: APPS }))
    await eventually('the limit is raised', async () => (await post(limited, single('ak_probe'))).status === 202)
    await page.clock.fastForward(70_000)
    await eventually('the rest is taken', () => areStored(limited, second))
    expectStoredOnce(limited, [...first, ...second])
    expect(profile.dropped).toEqual([])
  })

  it('that has used up its minute is not refused in the rest of it, over a reload too, and then sends', async () => {
    const limited = await start({
      apps: [appRecord('plain', { events_per_minute: 10 })],
      env: { SLUICE_CORS_ORIGINS: '*' },
    })
    await profile.context.clock.install({ time: Date.now() })
    await roomInMinute(15)
    const page = await profile.open(site.origin, optionsFor(limited))
    const [first, second] = [namesOf('first', 10), namesOf('second', 8)]
    await track(page, first)
    expect(await flush(page)).toBe(true)
    await track(page, second)
    expect(await flush(page)).toBe(false)
    await page.reload()
    await profile.start(page, optionsFor(limited))
    expect(await flush(page)).toBe(false)
    expectStoredOnce(limited, first)
    await writeFile(limited.appsFile, JSON.stringify({ apps: APPS }))
    await eventually('the limit is raised', async () => (await post(limited, single('ak_probe'))).status === 202)
    await page.clock.fastForward(70_000)
    await eventually('the rest is taken', () => areStored(limited, second))
    expectStoredOnce(limited, [...first, ...second])
    expect(ended(await readPage(limited), 'rate_limit_exceeded')).toBe(0)
    expect(profile.dropped).toEqual([])
  })

  it('whose policy forbids the service drops its events, and asks no more', async () => {
    const policy = encodeURIComponent("connect-src 'self'")
    const page = await profile.open(`${site.origin}/csp?${policy}`, optionsFor(service))
    const [name] = namesOf('forbidden', 1)
    await track(page, [name])
    await flush(page)
    await eventually('it is dropped', async () => (await flush(page)) && profile.dropped.length > 0)
    expect(profile.dropped).toEqual([{ reason: 'blocked', names: [name] }])
    expect(storedNames(service)).toEqual([])
  })
})

describe('a page that is left', () => {
  it('at once, for another site, has sent its events', async () => {
    const page = await profile.open(site.origin, optionsFor(service))
    const names = namesOf('left', 20)
    const tracking = `${JSON.stringify(names)}.forEach((name) => sluice.track(name))`
    await leave(page, `${site.plainOrigin}/elsewhere`, tracking)
    await eventually('all are stored', () => areStored(service, names))
    expectStoredOnce(service, names)
  })

  it('and opened again repeats what it did not see answered, and nothing is stored twice', async () => {
    const page = await profile.open(site.origin, optionsFor(service))
    const names = namesOf('left', 20)
    for (let visit = 0; visit < 5; visit++) {
      const tracking = `${JSON.stringify(names.slice(visit * 4, visit * 4 + 4))}.forEach((name) => sluice.track(name))`
      // Every other page has a request under way when it is left.
      await leave(page, `${site.origin}/${visit}`, visit % 2 ? `${tracking}; void sluice.flush()` : tracking)
      await profile.start(page, optionsFor(service))
    }
    await eventually('nothing waits', () => flush(page))
    expectStoredOnce(service, names)
    expect(profile.dropped).toEqual([])
  })

  it.each([
    ['60 KB', ''],
    ['the browser takes beside the beacons of others', `navigator.sendBeacon('/hang', 'x'.repeat(40_000))`],
  ])('with more than %s leaves the rest to the next page', async (_, before) => {
    const page = await profile.open(site.origin, optionsFor(service))
    const names = namesOf('large', 200)
    const tracking = `${JSON.stringify(names)}.forEach((name) => sluice.track(name, { text: 'x'.repeat(500) }))`
    await leave(page, `${site.plainOrigin}/elsewhere`, `${before}; ${tracking}`)
    await eventually('some are stored', () => storedNames(service).length > 0)
    await page.goto(site.origin)
    await profile.start(page, optionsFor(service))
    await eventually('nothing waits', () => flush(page))
    expectStoredOnce(service, names)
    expect(profile.dropped).toEqual([])
  })

  it('or only hidden sends once, though it is closed then', async () => {
    const page = await profile.open(site.origin, optionsFor(service))
    const names = namesOf('hidden', 10)
    await track(page, names)
    const isHidden = `Object.defineProperty(document, 'visibilityState', { get: () => 'hidden' })`
    await inPage(page, `(${isHidden}, void document.dispatchEvent(new Event('visibilitychange')))`)
    await page.close({ runBeforeUnload: true })
    await eventually('all are stored', () => areStored(service, names))
    const next = await profile.open(site.origin, optionsFor(service))
    expect(await flush(next)).toBe(true)
    expectStoredOnce(service, names)
  })
})

describe.each([
  ['secure pages', (): string => site.origin],
  ['pages over plain http', (): string => site.plainOrigin],
])('two tabs with %s', (_, origin) => {
  it('share a queue: all is stored once, also when one of them is closed in the middle', async () => {
    const first = await profile.open(origin(), optionsFor(service))
    const second = await profile.open(origin(), optionsFor(service))
    const names: string[] = []
    for (let round = 0; round < 10; round++) {
      const [left, right] = [namesOf(`first ${round}`, 30), namesOf(`second ${round}`, 30)]
      names.push(...left, ...right)
      await Promise.all([track(first, left), track(second, right)])
      await Promise.all([flush(first), flush(second)])
    }
    const last = namesOf('last', 10)
    await track(first, last)
    await first.close({ runBeforeUnload: true })
    await eventually('the other sends what is left', () => flush(second), 30_000)
    await eventually('all are stored', () => areStored(service, [...names, ...last]))
    expectStoredOnce(service, [...names, ...last])
    expect(profile.dropped).toEqual([])
  })
})

describe('storage', () => {
  it('that is full is made up for by memory', async () => {
    const page = await profile.open(site.origin, optionsFor(service))
    await inPage(
      page,
      `(() => {
        for (let size = 2 ** 22; size >= 1; size /= 2)
          try { localStorage.setItem('filled ' + size, 'x'.repeat(size)) } catch {}
      })()`,
    )
    const names = namesOf('full', 250)
    await track(page, names)
    expect(await flush(page)).toBe(true)
    expectStoredOnce(service, names)
    expect(profile.dropped).toEqual([])
  })

  it('that the page may not read is made up for by memory, and by a beacon at its end', async () => {
    const page = await profile.open(`${site.origin}/csp?sandbox allow-scripts`, optionsFor(service))
    await expect(inPage(page, 'localStorage')).rejects.toThrow('SecurityError')
    const names = namesOf('memory', 50)
    await track(page, names)
    expect(await flush(page)).toBe(true)
    const last = namesOf('last', 10)
    await track(page, last)
    await page.goto(site.origin)
    await eventually('all are stored', () => areStored(service, last))
    expectStoredOnce(service, [...names, ...last])
  })
})

describe('consent', () => {
  it('that is pending keeps events in memory; once it is given they are sent', async () => {
    const page = await profile.open(site.origin, { ...optionsFor(service), consent: 'pending' })
    const asked: string[] = []
    page.on('request', (request) => asked.push(request.url()))
    const names = namesOf('pending', 120)
    await track(page, names)
    expect(await flush(page)).toBe(false)
    expect(asked).toEqual([])
    expect(await inPage(page, 'Object.keys(localStorage)')).toEqual([])
    await inPage(page, 'sluice.optIn()')
    await eventually('they are sent', () => flush(page))
    expectStoredOnce(service, names)
  })

  it('that is taken back drops what waits, and holds on the next page', async () => {
    const page = await profile.open(site.origin, optionsFor(service))
    const [waits, late, next] = namesOf('opted out', 3)
    await profile.context.setOffline(true)
    await track(page, [waits])
    expect(await flush(page)).toBe(false)
    await inPage(page, `(sluice.optOut(), sluice.track('${late}'))`)
    await profile.context.setOffline(false)
    await page.reload()
    await profile.start(page, optionsFor(service))
    await track(page, [next])
    expect(await flush(page)).toBe(true)
    await eventually('each is told of', () => profile.dropped.length === 3)
    expect(profile.dropped).toEqual([waits, late, next].map((name) => ({ reason: 'consent', names: [name] })))
    expect(storedNames(service)).toEqual([])
  })
})
