// What one client can make of the Segment shim: its work, its answer, and what it sends on have bounds, and others are served.

import type { RequestListener } from 'node:http'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { type Members, send } from '../support/client.ts'
import { readJournal } from '../support/journal-files.ts'
import { head, openRaw } from '../support/raw-http.ts'
import { type Shim, startShim } from '../support/segment.ts'
import { appRecord, eventually, type Service, startService } from '../support/service.ts'
import { serve } from '../support/webhooks.ts'

const MOST_MESSAGES = 2500
const MOST_NAMED = 20

let service: Service
let shim: Shim

beforeAll(async () => {
  service = await startService({ apps: [appRecord('shop')] })
  shim = await startShim(service.port)
})
afterAll(() => shim.stop())

const key = { Authorization: `Basic ${Buffer.from('ak_shop:').toString('base64')}` }

/** Packed: some hundred bytes of these are half a megabyte. */
const batch = (members: object | string, to = shim, headers: Record<string, string> = key) =>
  send(to, {
    path: '/v1/batch',
    body: gzipSync(typeof members === 'string' ? members : JSON.stringify(members)),
    headers: { 'Content-Encoding': 'gzip', ...headers },
  })

const message = (changes: Members = {}): Members => ({
  type: 'track',
  event: 'clicked',
  userId: 'ann',
  messageId: 'm',
  timestamp: new Date().toISOString(),
  ...changes,
})
const messages = (count: number) => Array.from({ length: count }, () => message())
const storedNow = () => readJournal(service.dataDir).flatMap(({ events }) => events)

/** In the place of sluice. */
async function shimBefore(answer: RequestListener): Promise<Shim> {
  const double = await serve(answer)
  const own = await startShim(Number(new URL(double).port))
  onTestFinished(async () => void (await own.stop()))
  return own
}

describe('the work for one request', () => {
  const members = Array.from({ length: 20_000 }, (_, index) => `"m${index}":0`).join(',')

  it('has so many messages, whoever sends them', async () => {
    const many = `{"writeKey":"x","batch":[${'0,'.repeat(100_000)}0]}`
    const answer = await batch(many, shim, {})
    expect(answer).toMatchObject({ status: 400, json: { message: `batch: at most ${MOST_MESSAGES} messages` } })
  })

  it('does not grow by messages times members of a context', async () => {
    const many = `{"context":{${members}},"batch":[${'0,'.repeat(MOST_MESSAGES - 1)}0]}`
    const answer = await batch(many)
    expect(answer).toMatchObject({ status: 400, json: { refused_total: MOST_MESSAGES } })
    const before = storedNow().length
    const stored = await batch(`{"context":{${members},"locale":"de"},"batch":[${JSON.stringify(message())}]}`)
    expect(stored).toMatchObject({ status: 200, json: { stored: 1 } })
    expect(storedNow().slice(before)).toMatchObject([{ context: { locale: 'de', os: 'server' } }])
  })

  it('is not the writing of one large context for each message', async () => {
    const context = { page: { path: 'x'.repeat(4096) } }
    const answer = await batch({ context, batch: messages(2) })
    expect(answer).toMatchObject({ status: 400, json: { message: 'context: at most 4096 bytes for all messages' } })
    context.page.path = 'x'.repeat(4000)
    expect(await batch({ context, batch: messages(2) })).toMatchObject({ status: 200, json: { stored: 2 } })
  })

  it('ends at a depth that sluice takes, and the rest of the batch is stored', async () => {
    // Levels of the event: itself, and context, and page.
    const nested = (levels: number) => JSON.parse(`${'['.repeat(levels)}1${']'.repeat(levels)}`) as unknown
    const atLevels = (levels: number) => message({ messageId: `${levels}`, context: { page: nested(levels - 2) } })
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    const answer = await batch({ batch: [atLevels(63), message(), atLevels(62)] })
    expect(answer.json).toEqual({
      success: true,
      stored: 2,
      refused: [{ messageId: '63', path: '', message: 'nested too deeply' }],
      refused_total: 1,
    })
    for (const member of ['timestamp', 'userId', 'properties', 'messageId']) {
      const text = JSON.stringify({ batch: [message({ [member]: '?' }), message()] }).replace('"?"', deep)
      const { status, json } = await batch(text)
      expect({ member, status, stored: json['stored'] }).toMatchObject({ member, status: 200 })
      expect(json['stored'], member).toBe(1)
    }
    expect(await batch({ batch: [message({ timestamp: { toString: 1, valueOf: 1 } })] })).toMatchObject({ status: 400 })
    expect(shim.output()).not.toContain('bug')
  })

  it('is one request more for all events of a part that sluice refuses', async () => {
    let posts = 0
    const errors = Array.from({ length: 20 }, () => ({ path: 'events[0].name', message: 'required', event: 0 }))
    const own = await shimBefore((request, response) => {
      posts += 1
      request.resume().on('end', () => {
        const answer = { error: 'validation_failed', message: 'x', errors, invalid_events: [...Array(100).keys()] }
        response.writeHead(400).end(JSON.stringify(answer))
      })
    })
    expect(await batch({ batch: messages(100) }, own)).toMatchObject({ status: 400, json: { refused_total: 100 } })
    expect(posts).toBe(1)
  })

  it('is made for one part alone where nobody knows the key', async () => {
    const many = [...messages(200), { type: 'launch' }]
    const answer = await batch({ batch: many, writeKey: 'ak_nobody' }, shim, {})
    expect(answer).toMatchObject({ status: 401, json: { stored: 0, refused_total: 0 } })
  })

  it('has ten seconds in all for what it becomes', async () => {
    let posts = 0
    const own = await shimBefore((request, response) => {
      request.resume()
      // A sluice that takes four seconds for each.
      posts += 1
      setTimeout(() => response.writeHead(202).end('{}'), 4000)
    })
    const answer = await batch({ batch: messages(400) }, own)
    expect(answer).toMatchObject({ status: 503, json: { code: 'no_answer' } })
    expect(posts).toBeLessThan(4)
  })

  it('reads no answer of any length', async () => {
    const own = await shimBefore((request, response) => {
      request.resume()
      response.writeHead(202).end(`{"x":"${'x'.repeat(70_000)}"}`)
    })
    expect(await batch({ batch: messages(1) }, own)).toMatchObject({ status: 503, json: { code: 'no_answer' } })
  })
})

describe('the answer', () => {
  it('names the first twenty refusals and their number, and repeats no long id', async () => {
    const ids: unknown[] = ['a'.repeat(200), 'a'.repeat(201), { any: 'x'.repeat(100_000) }]
    const refused = Array.from({ length: MOST_MESSAGES }, (_, at) => ({
      type: 'launch',
      userId: 'ann',
      messageId: ids[at] ?? `m${at}`,
    }))
    const { json, text } = await batch({ batch: refused })
    const named = json['refused'] as { messageId?: string }[]
    expect(named.map(({ messageId }) => messageId).slice(0, 4)).toEqual([ids[0], undefined, undefined, 'm3'])
    expect({ named: named.length, total: json['refused_total'] }).toEqual({ named: MOST_NAMED, total: MOST_MESSAGES })
    expect(text.length).toBeLessThan(8000)
  })

  it('is 401 for a key of any length, and nothing is sent on', async () => {
    let posts = 0
    const own = await shimBefore((_, response) => (posts++, response.writeHead(401).end('{}')))
    const body = { writeKey: 'k'.repeat(201), batch: messages(200) }
    expect(await batch(body, own, {})).toMatchObject({ status: 401, json: { code: 'invalid_app_key' } })
    expect(posts).toBe(0)
  })
})

it('serves others while hundreds send half of a body', async () => {
  const text = `${head([`Authorization: ${key.Authorization}`, 'Content-Length: 1000'], 'POST /v1/track HTTP/1.1')}{`
  const halves = await Promise.all(Array.from({ length: 300 }, () => openRaw(shim.port)))
  onTestFinished(() => halves.forEach((each) => each.close()))
  for (const each of halves) each.write(text)
  for (let round = 0; round < 20; round += 1) {
    const answer = await send(shim, { path: '/v1/track', body: JSON.stringify(message()), headers: key })
    expect(answer).toMatchObject({ status: 200, json: { stored: 1 } })
  }
})

it('writes fewer lines than it refuses requests', async () => {
  const own = await startShim(service.port)
  onTestFinished(async () => void (await own.stop()))
  const lines = () => own.output().match(/messages were refused/g)?.length ?? 0
  for (let round = 0; round < 4; round += 1) {
    const answers = Array.from({ length: 50 }, () => batch({ batch: [0] }, own))
    for (const answer of await Promise.all(answers)) expect(answer.status).toBe(400)
  }
  await eventually('the first is written', () => lines() > 0)
  expect(lines()).toBeLessThan(200)
})
