// The Segment shim between a Segment library and a real service: what is stored of a call, stored once however often it is
// sent, and answers that say what was not.

import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { idsOf } from '../../examples/shared/ids.js'
import { type Answer, type Members, send } from '../support/client.ts'
import { readJournal } from '../support/journal-files.ts'
import { runShim, SECRET, type Shim, startLosingRelay, startShim } from '../support/segment.ts'
import { appRecord, eventually, roomInMinute, type Service, startService } from '../support/service.ts'

const APPS = [
  appRecord('shop'),
  appRecord('small', { events_per_minute: 2 }),
  appRecord('middle', { events_per_minute: 150 }),
  appRecord('gone', { subscription: 'canceled' }),
]
const MAX_BODY_BYTES = 524_288

let service: Service
let shared: Shim
/** Another one where a test wants it. */
let shim: Shim
const stops: (() => unknown)[] = []
let ids = 0

beforeAll(async () => {
  service = await startService({ apps: APPS })
  shared = await startShim(service.port)
})
beforeEach(() => {
  shim = shared
})
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop()
})
afterAll(() => shared.stop())

const basic = (key: string) => ({ Authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` })

function call(
  name: string,
  body: Members | string,
  headers: Record<string, string> = basic('ak_shop'),
): Promise<Answer> {
  return send(shim, { path: `/v1/${name}`, body: typeof body === 'string' ? body : JSON.stringify(body), headers })
}

/** A track message as a library sends it. */
function message(changes: Members = {}): Members & { messageId: string } {
  const timestamp = new Date().toISOString()
  return { type: 'track', event: 'clicked', userId: 'ann', messageId: `m-${++ids}`, timestamp, ...changes }
}

const messages = (count: number) => Array.from({ length: count }, () => message())
const idsIn = (batch: readonly { messageId: string }[]) => batch.map(({ messageId }) => messageId)

/** Those that were stored since the test began. */
let before = 0
beforeEach(() => {
  before = readJournal(service.dataDir).length
})
const stored = () => readJournal(service.dataDir).slice(before)
const storedEvents = () => stored().flatMap((record) => record.events)
const storedIds = () => storedEvents().map((event) => event['event_id'])

describe('what is stored of a call', () => {
  const common = { userId: 'ann', anonymousId: 'device-7', timestamp: '' }
  const cases: [string, Members, Members][] = [
    [
      'track',
      { event: 'clicked', properties: { size: 3 } },
      { type: 'track', name: 'clicked', properties: { size: 3 } },
    ],
    ['t', { event: 'clicked' }, { type: 'track', name: 'clicked', segment_type: 'track' }],
    ['page', { name: 'Home', properties: { path: '/' } }, { type: 'screen', name: 'Home', properties: { path: '/' } }],
    ['p', { name: null }, { type: 'screen', name: 'page', segment_type: 'page' }],
    ['screen', { name: 'Cart' }, { type: 'screen', name: 'Cart', segment_type: 'screen' }],
    ['identify', { traits: { plan: 'pro' } }, { type: 'track', name: 'identify', properties: { plan: 'pro' } }],
    ['group', { groupId: 5, traits: { name: 'G' } }, { name: 'group', group_id: '5', properties: { name: 'G' } }],
    ['alias', { previousId: 'anon' }, { name: 'alias', previous_id: 'anon' }],
    [
      'track',
      { event: 'bought', properties: { revenue: 9.99, currency: 'EUR' } },
      { type: 'revenue', name: 'bought', revenue: { amount: 9.99, currency: 'EUR' } },
    ],
  ]
  it.each(cases)('/v1/%s %j', async (name, sent, event) => {
    const timestamp = new Date().toISOString()
    const answer = await call(name, { ...common, timestamp, ...sent })
    expect(answer).toMatchObject({ status: 200, json: { success: true, stored: 1 } })
    const ids = idsOf(SECRET, 'ann', new Date(timestamp))
    expect(storedEvents()).toMatchObject([{ ...event, ...ids, timestamp, user_id: 'ann', context: { os: 'server' } }])
  })

  it('is of the device what is no id and no address, and who is not logged in has no user_id', async () => {
    const context = {
      os: { name: 'iOS', version: '19.1' },
      app: { version: '4.2.0', build: null },
      device: { id: 'secret-1', advertisingId: 'secret-2', model: 'iPhone17,2' },
      screen: { width: 402, height: null },
      ip: 'secret-3',
      location: { city: 'secret-4' },
      locale: 'en-GB',
    }
    await call('batch', { batch: [message({ userId: null, anonymousId: 'secret-5' })], context })
    const [{ line }] = stored()
    expect(line).not.toContain('secret')
    expect(line).not.toContain('user_id')
    expect(storedEvents()[0]['context']).toEqual({
      os: 'iOS',
      os_version: '19.1',
      app_version: '4.2.0',
      device_type: 'iPhone17,2',
      screen_width: 402,
      locale: 'en-GB',
    })
  })

  it('comes from a packed body with its key inside, too', async () => {
    const batch = messages(2)
    const body = gzipSync(JSON.stringify({ writeKey: 'ak_shop', batch }))
    const answer = await send(shim, { path: '/v1/import', body, headers: { 'Content-Encoding': 'gzip' } })
    expect(answer).toMatchObject({ status: 200, json: { success: true, stored: 2 } })
    expect(storedIds()).toEqual(idsIn(batch))
  })
})

describe('once', () => {
  it('a batch of any size is stored once, however often it is sent', async () => {
    const batch = messages(250)
    for (const sentAt of ['first', 'second']) {
      expect(await call('batch', { batch, sentAt })).toMatchObject({
        status: 200,
        json: { success: true, stored: 250 },
      })
    }
    expect(storedIds()).toEqual(idsIn(batch))
  })

  it('a batch of many bytes is stored whole in parts that fit', async () => {
    const properties = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`p${index}`, '€'.repeat(160)]))
    const batch = Array.from({ length: 100 }, () => message({ properties }))
    const body = JSON.stringify({ batch })
    expect(Buffer.byteLength(body)).toBeGreaterThan(500_000)
    expect(await call('batch', body)).toMatchObject({ status: 200, json: { stored: 100 } })
    expect(storedIds()).toHaveLength(100)
    expect(stored().length).toBeGreaterThan(1)
  })

  it('messages without an id or a time are all stored, since a second one may be another click', async () => {
    for (const missing of ['messageId', 'timestamp']) {
      const batch = [message({ [missing]: undefined })]
      for (let round = 0; round < 2; round += 1) expect((await call('batch', { batch })).status).toBe(200)
    }
    expect(storedEvents()).toHaveLength(4)
  })

  it('a batch whose answer was lost is stored, answered 503, and not stored again with the next try', async () => {
    const relay = await startLosingRelay(service.port)
    stops.push(relay.stop)
    shim = await startShim(relay.port)
    stops.push(() => shim.stop())
    const batch = messages(3)
    const lost = await call('batch', { batch })
    expect(lost).toMatchObject({ status: 503, json: { success: false, code: 'no_answer', stored: 0 } })
    expect(lost.headers['retry-after']).toBe('1')
    expect(storedIds()).toHaveLength(3)
    relay.loseNothing()
    expect(await call('batch', { batch })).toMatchObject({ status: 200, json: { stored: 3 } })
    expect(storedIds()).toEqual(idsIn(batch))
  })
})

describe('what is refused', () => {
  const long = { properties: { text: 'x'.repeat(501) } }

  it('is named by its id, and the rest of its batch is stored once', async () => {
    // What others brought about has a line of the log a second.
    shim = await startShim(service.port)
    stops.push(() => shim.stop())
    const good = messages(2)
    const tooLong = message(long)
    const nobody = message({ userId: null })
    const unknown = message({ type: 'launch' })
    const nameless = Array.from({ length: 30 }, () => message({ event: '' }))
    const batch = [good[0], tooLong, nobody, unknown, ...nameless, good[1]]
    for (let round = 0; round < 2; round += 1) {
      const { status, json } = await call('batch', { batch })
      expect({ status, success: json['success'], stored: json['stored'] }).toEqual({
        status: 200,
        success: true,
        stored: 2,
      })
      expect(json['refused_total']).toBe(33)
      const refused = json['refused'] as Members[]
      expect(refused).toHaveLength(20)
      expect(refused).toEqual(
        expect.arrayContaining([
          { messageId: tooLong.messageId, path: 'properties[0]', message: 'at most 500 characters' },
          { messageId: nobody.messageId, path: '', message: 'userId or anonymousId: required' },
          {
            messageId: unknown.messageId,
            path: '',
            message: 'type: must be track, page, screen, identify, group or alias',
          },
          { messageId: nameless[0].messageId, path: 'name', message: 'length must be 1 to 200' },
        ]),
      )
    }
    expect(storedIds()).toEqual(idsIn(good))
    await eventually('it is logged, without content', () => shim.output().includes('33 of 35 messages were refused'))
    expect(shim.output()).not.toContain('xxx')
  })

  it('is a 400 with its reason where nothing is left', async () => {
    const answer = await call('track', message({ ...long, event: undefined }))
    expect(answer).toMatchObject({
      status: 400,
      json: { success: false, code: 'validation_failed', message: 'properties[0] at most 500 characters' },
    })
  })

  it('keeps its status where sluice knows no such key, the subscription has ended, or a limit is reached', async () => {
    expect(await call('track', message(), basic('ak_nobody'))).toMatchObject({
      status: 401,
      json: { success: false, code: 'invalid_app_key', stored: 0 },
    })
    expect(await call('track', message(), basic('ak_gone'))).toMatchObject({
      status: 402,
      json: { code: 'subscription_inactive' },
    })
    await roomInMinute(5)
    const full = await call('batch', { batch: messages(3) }, basic('ak_small'))
    expect(full).toMatchObject({ status: 429, json: { code: 'rate_limit_exceeded', stored: 0 } })
    expect(full.headers['retry-after']).toMatch(/^[1-9]\d*$/)
    expect(storedEvents()).toEqual([])
  })

  it('says how much is stored where only a part found room', async () => {
    await roomInMinute(5)
    const answer = await call('batch', { batch: messages(200) }, basic('ak_middle'))
    expect(answer).toMatchObject({ status: 429, json: { success: false, stored: 100 } })
    expect(storedEvents()).toHaveLength(100)
  })

  it('is every body that is too long, none, or sent elsewhere, and the next one is served', async () => {
    const tooLong = JSON.stringify({ batch: [message({ filler: 'x'.repeat(MAX_BODY_BYTES) })] })
    expect((await call('batch', tooLong)).status).toBe(413)
    const bomb = gzipSync(Buffer.alloc(20_000_000, ' '))
    const packed = { ...basic('ak_shop'), 'Content-Encoding': 'gzip' }
    expect((await send(shim, { path: '/v1/batch', body: bomb, headers: packed })).status).toBe(413)
    expect((await send(shim, { path: '/v1/batch', body: 'no gzip', headers: packed })).status).toBe(400)
    for (const body of ['', 'null', '[]', '{"batch":5}', '{']) expect((await call('batch', body)).status).toBe(400)
    expect((await call('batch', { batch: messages(1) }, {})).status).toBe(401)
    expect((await call('projects', {})).status).toBe(404)
    expect((await send(shim, { method: 'GET', path: '/v1/batch' })).status).toBe(405)
    const deep = `{"batch":[{"type":"track","event":"e","userId":"u","properties":${'['.repeat(200_000)}${']'.repeat(200_000)}}]}`
    expect(await call('batch', deep)).toMatchObject({ status: 400, json: { message: 'nested too deeply' } })
    expect((await call('batch', { batch: [null, 'text', 5, []] })).status).toBe(400)
    expect((await call('track', message())).status).toBe(200)
    expect(shim.output()).not.toContain('bug')
  })
})

describe('the program', () => {
  it('takes at most 64 requests at a time, and refuses others at once', async () => {
    const held = new Set<Socket>()
    const silent = createServer((socket) => void held.add(socket)).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    stops.push(() => silent.close())
    shim = await startShim((silent.address() as { port: number }).port)
    stops.push(() => shim.stop())
    const waiting = Array.from({ length: 64 }, () => call('track', message()))
    await eventually('64 wait for sluice', () => held.size === 64)
    const answer = await call('track', message())
    expect(answer).toMatchObject({ status: 503, json: { code: 'busy' } })
    expect(answer.headers['retry-after']).toBe('1')
    for (const socket of held) socket.destroy()
    for (const each of await Promise.all(waiting)) expect(each.status).toBe(503)
  })

  it('ends with code 0 on SIGTERM, also after a request on a connection that stays open', async () => {
    shim = await startShim(service.port)
    expect((await call('track', message())).status).toBe(200)
    expect(await shim.stop()).toBe(0)
  })

  it('does not start without a secret for the ids, and says how to make one', async () => {
    const { process: child, output } = runShim([], { IDS_SECRET: 'short' })
    const [code] = (await once(child, 'close')) as [number]
    expect({ code, said: output() }).toEqual({ code: 1, said: expect.stringContaining('openssl rand -hex 32') })
  })

  it('names an option that it does not have in one line, and --help', async () => {
    const { process: child, output } = runShim(['--prot', '1'], { IDS_SECRET: SECRET })
    const [code] = (await once(child, 'close')) as [number]
    expect({ code, said: output() }).toEqual({
      code: 1,
      said: expect.stringMatching(/^segment: Unknown option '--prot'.*; --help lists the options\n$/),
    })
  })
})
