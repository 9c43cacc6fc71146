// A peer on NATS that publishes garbage to the subjects of the console: the node lives, answers its clients, and sends
// nothing to a subject of the peer's choice.

import { connect, type NatsConnection } from '@nats-io/transport-node'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FORMAT } from '../../src/inspect/peers/peer-messages.ts'
import { get, post, single } from '../support/client.ts'
import { becomesReady } from '../support/cluster.ts'
import { openEventStream } from '../support/event-stream.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { appRecord, eventually, makeFolder, type Service, startService, writeApps } from '../support/service.ts'

const APPS = [appRecord('shop'), appRecord('paused', { subscription: 'paused' })]
const PEER = '0123456789ab'
const ASK = 'sluice.console.ask'
const HERE = 'sluice.console.here'
const ONE = 'sluice.console.one'

const EVENTS = { app: null, type: null, name: null }
/** Bodies of the question `live`. */
const LIVE: readonly unknown[] = [
  undefined,
  [],
  { kind: 'events', watches: null },
  { kind: 'refusals', watches: [{ filter: { app: null, code: null } }] },
  { kind: 'refusals', watches: [{ filter: null, since: {} }] },
  { kind: 'events', watches: [{ filter: { ...EVENTS, user: null }, since: { x: 'y' } }] },
  { kind: 'events', watches: [{ filter: { ...EVENTS, user: null, name: 5 }, since: {} }] },
  { kind: 'events', watches: [{ filter: { ...EVENTS, user: null, name: 'x'.repeat(500_000) }, since: {} }] },
  { kind: 'constructor', watches: [] },
]

let redis: RedisServer
let nats: NatsServer
let folder: string
let service: Service
let peer: NatsConnection

beforeAll(async () => {
  ;[redis, nats, folder] = await Promise.all([startRedis(), startNats(), makeFolder()])
  await writeApps(`${folder}/apps.json`, APPS)
  peer = await connect({ servers: nats.url })
  service = await startService({
    dataDir: folder,
    env: {
      REDIS_URL: redis.url,
      NATS_URL: nats.url,
      SLUICE_APPS_FILE: `${folder}/apps.json`,
      SLUICE_ADMIN_HOST: '127.0.0.1',
      SLUICE_PARSERS: '1',
    },
  })
  await becomesReady(service)
})
afterAll(() => peer.close())

function tell(subject: string, head: object, reply = '', body: unknown = ''): void {
  const text = body === '' ? '' : JSON.stringify(body)
  peer.publish(subject, `${JSON.stringify({ format: FORMAT, ...head })}\n${text}`, reply === '' ? {} : { reply })
}

/** A question of the peer. */
function question(name: unknown, more: object = {}): object {
  return { from: PEER, name, scope: 'all', query: '', ...more }
}

/** The console of the node answers, so it has read what was published before. */
async function isWell(): Promise<void> {
  await peer.flush()
  expect((await post(service, single('ak_shop'))).status).toBe(202)
  expect((await post(service, single('ak_paused'))).status).toBe(402)
  expect((await get(service.adminPort, '/api/now')).status).toBe(200)
  expect((await get(service.adminPort, '/api/refusals')).status).toBe(200)
  expect((await get(service.adminPort, '/api/apps')).status).toBe(200)
}

function faults(): string[] {
  return service
    .output()
    .split('\n')
    .filter((line) => line.includes('bug in the console: a page or stream got no answer; events are not affected'))
}

describe('a peer that publishes garbage', () => {
  it('cannot end the node by what it says that it watches', async () => {
    for (const body of LIVE) tell(ASK, question('live'), `sluice.console.reply.${PEER}`, body)
    await isWell()
    // The taps tell their rates each second.
    const stream = await openEventStream(service.adminPort, '/api/events/stream')
    await eventually('a second passed', () => stream.events.some(({ event }) => event === 'rate'))
    stream.close()
    await isWell()
    expect(faults()).toEqual([])
  })

  it('cannot end the node, or fill its log, by reports and questions of any form', async () => {
    for (const head of [
      {},
      { from: PEER },
      { from: PEER, report: null },
      { from: PEER, report: { node: 'x' } },
      { from: PEER, report: { node: 'x', parts: 'y' } },
    ]) {
      tell(HERE, head)
    }
    for (const name of ['now', 'refusals', 'last hour', 'live', 'constructor', 5]) {
      for (const query of [undefined, null, 5, {}, 'limit=x&app=&range=x']) {
        tell(ASK, question(name, { query }), `sluice.console.reply.${PEER}`)
      }
      tell(ASK, question(name, { scope: 5 }), `sluice.console.reply.${PEER}`)
    }
    for (const head of [{}, { name: 'explain' }, question('batch', { query: 5 }), question('__proto__')]) {
      tell(ONE, head, `sluice.console.reply.${PEER}`)
    }
    await isWell()
    expect(faults()).toEqual([])
  })

  it('cannot end the node by what it sends to those who watch', async () => {
    let asked = 0
    const end = peer.subscribe(ASK, {
      callback: (_, message) => {
        asked += 1
        for (const [at, piece] of [
          null,
          5,
          {},
          { refusals: [null], groups: 5 },
          { refusals: [null], groups: [null], minute: 1 },
          { accepted: null, refused: null },
          { node: 'x' },
          { node: 'x', kind: 'events', told: [{ next: 1, kept: ['{}\n\nevent: now\ndata: {}'] }] },
          { node: 'x', kind: 'refusals', told: [{ next: 1, kept: ['{}'] }] },
          { node: 'x', kind: 'alerts', told: [{ next: 1, kept: ['{}'] }] },
          { node: 'x', kind: 'events', told: [{ next: 1, kept: [{ seen: 'x' }] }] },
        ].entries()) {
          const head = { format: FORMAT, from: `${PEER}${at}`, part: 0, of: 1, status: 200 }
          peer.publish(message.reply ?? '', `${JSON.stringify(head)}\n${JSON.stringify(piece)}`)
        }
      },
    })
    // A node that has heard nobody asks nobody.
    tell(HERE, { from: PEER, gone: 'nobody' })
    await peer.flush()
    for (const path of [
      '/api/refusals/stream?from_start=1',
      '/api/events/stream',
      '/api/alerts/stream',
      '/api/now/stream',
    ]) {
      const stream = await openEventStream(service.adminPort, path)
      const before = asked
      await eventually('it was asked again', () => asked > before + 1)
      await isWell()
      expect(stream.text).not.toContain('data: {}')
      expect(stream.events.filter(({ event }) => event === 'refusal').every(({ data }) => 'code' in data)).toBe(true)
      stream.close()
    }
    end.unsubscribe()
    expect(faults()).toEqual([])
  })

  it('gets no answer at a subject that is not an inbox', async () => {
    const got: string[] = []
    const end = peer.subscribe('sluice.events.*', { callback: (_, message) => void got.push(message.string()) })
    tell(ASK, question('now'), 'sluice.events.3')
    tell(ONE, question('apps'), 'sluice.events.3')
    const answered: string[] = []
    const inbox = peer.subscribe(`sluice.console.reply.${PEER}.1`, {
      callback: (_, message) => void answered.push(message.string()),
    })
    tell(ASK, question('now'), `sluice.console.reply.${PEER}.1`)
    tell(ONE, question('apps'), `sluice.console.reply.${PEER}.1`)
    await eventually('both are answered at an inbox', () => answered.length > 1)
    expect(got).toEqual([])
    end.unsubscribe()
    inbox.unsubscribe()
  })
})
