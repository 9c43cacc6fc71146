// What the console says while a service refuses requests, or goes on without a store: the header, the first sentence and
// the list of refusals name the same reason, as the API does.

import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { bodyOfSize, type Members, post, send, single } from '../support/client.ts'
import { type Cluster, startCluster } from '../support/cluster.ts'
import { expectShown, launchBrowser, Pages } from '../support/console-page.ts'
import { appRecord, eventually, makeFolder, type Service, startService } from '../support/service.ts'
import { mountSmall, takeAllRoom } from '../support/small-disk.ts'

const APPS = [appRecord('shop', { events_per_minute: 1_000_000, events_per_month: 100_000_000 })]
const LARGE = bodyOfSize('ak_shop', 500_000)
const LARGE_AT_ONCE = 64

let browser: Browser
let pages: Pages

beforeAll(async () => {
  browser = await launchBrowser()
})
afterAll(() => browser?.close())
beforeEach(() => {
  pages = new Pages(browser)
})
afterEach(async () => {
  await pages.close()
})

async function startOne(dataDir: string, env: Record<string, string> = {}): Promise<Service> {
  const service = await startService({ dataDir, apps: APPS, env })
  onTestFinished(() => service.kill())
  return service
}

async function aFolder(): Promise<string> {
  const folder = await makeFolder()
  return folder
}

async function startNodes(): Promise<{ cluster: Cluster; service: Service }> {
  const cluster = await startCluster({ nodes: 1, apps: APPS })
  onTestFinished(() => cluster.stop())
  return { cluster, service: cluster.nodes[0] }
}

async function nowOf(service: Service): Promise<Members> {
  const asked = { method: 'GET', path: '/api/now', headers: { 'Content-Type': '(none)' } }
  return (await send({ port: service.adminPort }, asked)).json
}

const headerOf = (page: Page): Promise<string> => page.locator('.pill.state').innerText()
const verdictOf = (page: Page): Promise<string> => page.locator('.verdict .figure').innerText()
const view = (service: Service, path = '/'): Promise<Page> => pages.open(`http://127.0.0.1:${service.adminPort}${path}`)

/** Whether header and sentence say the same. They are read one behind the other, while the state may change. */
async function agree(page: Page): Promise<boolean> {
  const before = await headerOf(page)
  const verdict = await verdictOf(page)
  return before === (await headerOf(page)) && verdict.startsWith(before)
}

/** `words`: in the header and in the sentence. `reason`: in the API and in the list. */
async function expectRefusing(
  service: Service,
  { words, reason, refuse }: { words: RegExp; reason: string; refuse: () => Promise<unknown> },
): Promise<Page> {
  const page = await view(service)
  await eventually('the first sentence says it, with a rate', async () => {
    await refuse()
    return new RegExp(`^Refusing [\\d.,]+ requests/s: ${words.source}`).test(await verdictOf(page))
  })
  await eventually('the header says the same', async () => {
    await refuse()
    return await agree(page)
  })
  expect(await page.locator('.verdict .fail').count()).toBe(1)
  await expectShown(page, 'To do:')
  const now = await nowOf(service)
  expect(now).toMatchObject({ state: 'refusing', nodes: [{ state: 'refusing' }] })
  expect(now['reasons']).toContainEqual({ reason, per_second: expect.any(Number) })
  const list = await view(service, '/refused?code=service_overloaded')
  const title = reason.replaceAll('_', ' ')
  await list
    .locator('.rows a.item')
    .getByText(new RegExp(`^${title}$`, 'i'))
    .first()
    .waitFor()
  return page
}

async function expectHealthy(service: Service, page: Page): Promise<void> {
  await eventually('all is well again', async () => {
    await post(service, single('ak_shop'))
    return (await headerOf(page)).startsWith('Healthy') && (await agree(page))
  })
}

test('a full journal is named in the header, the sentence and the list', async () => {
  const service = await startOne(await aFolder(), { SLUICE_JOURNAL_MAX_MB: '1' })
  const refuse = () => post(service, LARGE)
  const page = await expectRefusing(service, { words: /journal full for \d+ s/, reason: 'journal_full', refuse })
  // Nobody sends, and still it is not well.
  await eventually('no rate is left', async () => /^Refusing: journal full for \d+ s\.$/.test(await verdictOf(page)))
  expect(await agree(page)).toBe(true)
})

test('a full disk is named in the header, the sentence and the list, until there is room', async (context) => {
  const place = mountSmall('48m', context.skip)
  const data = join(place, 'data')
  await mkdir(data)
  const service = await startOne(data)
  const { max_bytes: maxBytes } = (await nowOf(service))['queue'] as Members
  expect(Number(maxBytes)).toBeLessThanOrEqual(48 * 1024 * 1024)
  takeAllRoom(join(place, 'filler'))
  const refuse = () => post(service, LARGE)
  const page = await expectRefusing(service, { words: /disk full for \d+ s/, reason: 'journal_full', refuse })
  await rm(join(place, 'filler'))
  await expectHealthy(service, page)
})

test('a NATS that is away is named in the header, the sentence and the list, until it is back', async () => {
  const { cluster, service } = await startNodes()
  await cluster.nats.kill()
  const refuse = () => Promise.all(Array.from({ length: 3 }, () => post(service, single('ak_shop'))))
  const page = await expectRefusing(service, { words: /NATS away for \d+ s/, reason: 'nats_away', refuse })
  await cluster.nats.restart()
  await expectHealthy(service, page)
})

test('a Redis that is away is named in the header and the sentence, and nothing is refused', async () => {
  const { cluster, service } = await startNodes()
  const page = await view(service)
  await expectShown(page, 'Healthy')
  await cluster.redis.kill()
  await eventually('the first sentence says it', async () => {
    await post(service, single('ak_shop'))
    return /^Degraded: Redis away for \d+ s\./.test(await verdictOf(page))
  })
  await eventually('the header says the same', () => agree(page))
  expect(await nowOf(service)).toMatchObject({ state: 'degraded', reasons: [], nodes: [{ state: 'degraded' }] })
  const list = await view(service, '/refused?code=service_overloaded')
  await expectShown(list, /^Nothing that fits was refused since \d\d:\d\d UTC$/)
  await cluster.redis.restart()
  await expectHealthy(service, page)
})

test('a full ring is named in the header, the sentence and the list, until there is room', async () => {
  const service = await startOne(await aFolder(), { SLUICE_RING_MB: '4', SLUICE_PARSERS: '1' })
  const refuse = () => Promise.all(Array.from({ length: LARGE_AT_ONCE }, () => post(service, LARGE)))
  const page = await expectRefusing(service, { words: /(?:evicted, )?ring full/, reason: 'ring_full', refuse })
  await expectHealthy(service, page)
})
