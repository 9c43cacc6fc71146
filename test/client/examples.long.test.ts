// The examples of the client's pages run as they are written, with the built package, against a service of the test's own.

import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { makeFolder } from '../support/service.ts'
import type { SentBody, SentEvent } from './support/double.ts'
import { buildClient } from './support/stored.ts'

const PACKAGE = resolve(import.meta.dirname, '../../clients/typescript')
const SERVICE = 'https://events.example.com'

/** Code that an example counts on, around it, and the events that it sends. */
interface Example {
  readonly before?: string
  readonly after?: string
  readonly sends: readonly object[]
}

const IDS = `const ids = { user_id: 'user-17', session_id: 'session-of-the-user' }`

const README: readonly Example[] = [
  { sends: [{ name: 'signup', properties: { plan: 'yearly' } }] },
  { before: IDS, sends: [{ name: 'invoice_sent', user_id: 'user-17', session_id: 'session-of-the-user' }] },
  {
    sends: [{ name: 'export', user_id: 'user-17', properties: { plan: 'yearly', rows: 20 } }, { name: 'visit' }],
  },
]

const ELSEWHERE: readonly Example[] = [
  { after: `setTimeout(() => listeners[0]('background'), 50)`, sends: [{ name: 'start', context: { os: 'ios' } }] },
  {
    before: `globalThis.postMessage = (text) => console.log(text); var onmessage`,
    after: `await onmessage({ data: { rows: 3 } })`,
    sends: [{ name: 'report_made', properties: { rows: 3 } }],
  },
  {
    after: `${IDS}; console.log((await handler({ order: { items: [1, 2] }, ids })).statusCode)`,
    sends: [{ name: 'order_placed', user_id: 'user-17', properties: { items: 2 } }],
  },
  {
    after: `
      const { default: worker } = await import(import.meta.url)
      const waits = []
      const context = { waitUntil: (promise) => waits.push(promise) }
      const answer = await worker.fetch({ url: 'https://shop.example.com/cart' }, { SLUICE_APP_KEY: 'ak_demo_2f6c1d' }, context)
      console.log(await answer.text())
      await Promise.all(waits)`,
    sends: [{ name: 'page_served', properties: { path: '/cart' } }],
  },
]

/** Doubles of what an app on a telephone has. */
const NATIVE = {
  'react-native': `
    globalThis.listeners = []
    export const Platform = { OS: 'ios', Version: 18 }
    export const AppState = { addEventListener: (_type, listener) => listeners.push(listener) }`,
  '@react-native-async-storage/async-storage': `
    const texts = new Map([['of another library', 'text']])
    export default {
      getAllKeys: async () => [...texts.keys()],
      getItem: async (name) => texts.get(name) ?? null,
      setItem: async (name, text) => void texts.set(name, text),
      removeItem: async (name) => void texts.delete(name),
    }`,
}

const bodies: SentBody[] = []
const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    bodies.push(JSON.parse(Buffer.concat(chunks).toString()) as SentBody)
    response.writeHead(202).end('{}')
  })
})
let user: string

beforeAll(async () => {
  user = await makeFolder()
  const modules = join(user, 'node_modules')
  const install = (name: string, text: string): void => {
    mkdirSync(join(modules, name), { recursive: true })
    writeFileSync(join(modules, name, 'package.json'), JSON.stringify({ name, type: 'module', exports: './index.js' }))
    writeFileSync(join(modules, name, 'index.js'), text)
  }
  for (const [name, text] of Object.entries(NATIVE)) install(name, text)
  const built = buildClient(user)
  mkdirSync(join(modules, 'sluice-client'))
  const exports = { '.': `./index.js`, './file': './file.js' }
  writeFileSync(join(modules, 'sluice-client/package.json'), JSON.stringify({ type: 'module', exports }))
  for (const file of ['index.js', 'file.js'])
    writeFileSync(join(modules, 'sluice-client', file), readFileSync(join(built, file)))
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done))
})

afterAll(() => {
  server.close().closeAllConnections()
})

async function run(page: string, at: number, { before = '', after = '' }: Example): Promise<SentEvent[]> {
  const snippets = Array.from(
    readFileSync(join(PACKAGE, page), 'utf8').matchAll(/```js\n(.*?)```/gs),
    ([, code]) => code,
  )
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const code = snippets[at].replaceAll(SERVICE, url).replaceAll('/var/lib/shop', user)
  const isWhole = after.includes('import.meta.url')
  const file = join(user, `example-${page.replaceAll(/\W/g, '-')}-${at}.mjs`)
  // An example that is a whole module is imported by another.
  writeFileSync(file, isWhole ? code : `${before}\n${code}\n${after}`)
  const main = join(user, 'main.mjs')
  writeFileSync(
    main,
    isWhole ? after.replace('import.meta.url', JSON.stringify(file)) : `await import(${JSON.stringify(file)})`,
  )
  bodies.length = 0
  await promisify(execFile)(process.execPath, [main], { cwd: user, timeout: 60_000 })
  return bodies.flatMap(({ events }) => events)
}

it.each([
  ['README.md', README],
  ['docs/elsewhere.md', ELSEWHERE],
] as const)('%s: each example sends what it says, once, and ends', async (page, examples) => {
  const count = readFileSync(join(PACKAGE, page), 'utf8').split('```js\n').length - 1
  expect(examples).toHaveLength(count)
  for (const [at, example] of examples.entries()) {
    const events = await run(page, at, example)
    expect(events).toHaveLength(example.sends.length)
    expect(events).toMatchObject(example.sends)
  }
})
