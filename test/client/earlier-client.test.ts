// The client of 0.2 as it was built, in pages that stay for months, against this service.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { runInNewContext } from 'node:vm'
import { expect, it, onTestFinished } from 'vitest'
import type { Client, Options } from '../../clients/typescript/src/types.ts'
import { appRecord, eventually, writeApps } from '../support/service.ts'
import { start, storedEvents, urlOf } from './support/stored.ts'

const SCRIPT = readFileSync(join(import.meta.dirname, 'client-0.2.0/sluice.min.js'), 'utf8')
const ORIGIN = 'https://shop.example.com'

/** As a page of that origin has it. */
function earlierClient(options: Options): Client {
  const send: typeof fetch = (url, init) =>
    fetch(url, { ...init, headers: { ...(init?.headers as Record<string, string>), Origin: ORIGIN } })
  const names = ['crypto', 'setTimeout', 'clearTimeout', 'AbortController', 'AbortSignal', 'Response', 'Blob'] as const
  const more = ['CompressionStream', 'TextEncoder', 'URL', 'Headers', 'performance'] as const
  const page = { ...Object.fromEntries([...names, ...more].map((name) => [name, globalThis[name]])), fetch: send }
  const { createClient } = runInNewContext(`${SCRIPT};sluice`, page) as { createClient: (options: Options) => Client }
  const client = createClient(options)
  onTestFinished(() => client.close())
  return client
}

it('keeps what its page may not send, and stores it once the page is named', async () => {
  const apps = [appRecord('plain', { origins: ['https://other.example.com'] })]
  const service = await start({ apps, env: { SLUICE_CORS_ORIGINS: '*' } })
  const [held, dropped]: string[][] = [[], []]
  const client = earlierClient({
    url: urlOf(service),
    appKey: 'ak_plain',
    onHeld: (_reason, events) => held.push(...events.map(({ name }) => name)),
    onDropped: (reason) => dropped.push(reason),
  })
  client.track('signup')
  await client.flush()
  expect([held, dropped]).toEqual([['signup'], []])
  await writeApps(service.appsFile, [appRecord('plain', { origins: [ORIGIN] })])
  await eventually('it is sent again and stored', () => client.flush())
  expect(storedEvents(service.dataDir).map(({ name }) => name)).toEqual(['signup'])
  expect(dropped).toEqual([])
})

it('drops the events that are refused, and stores the others', async () => {
  const service = await start({ env: { SLUICE_CORS_ORIGINS: '*' } })
  const dropped: string[] = []
  const client = earlierClient({
    url: urlOf(service),
    appKey: 'ak_plain',
    onDropped: (_reason, events) => dropped.push(...events.map(({ name }) => name)),
  })
  const tooLong = 'x'.repeat(501)
  for (let at = 0; at < 60; at++) client.track(`event ${at}`, at % 2 === 0 ? { text: tooLong } : {})
  await eventually('all is settled', () => client.flush())
  const names = (rest: number): string[] =>
    Array.from({ length: 60 }, (_, at) => `event ${at}`).filter((_, at) => at % 2 === rest)
  expect(storedEvents(service.dataDir).map(({ name }) => name)).toEqual(names(1))
  expect(dropped.toSorted()).toEqual(names(0).toSorted())
})
