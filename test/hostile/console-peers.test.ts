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
const WATCH = 'sluice.console.watch'
const HERE = 'sluice.console.here'
const ONE = 'sluice.console.one'

const EVENTS = { app: null, type: null, name: null }
const REFUSALS = { app: null, code: null }
const WATCHES: readonly object[] = [
  [],
  { from: PEER, id: 'a b', kind: 'events', filter: EVENTS },
  { from: PEER, id: 'a b', kind: 'refusals', filter: REFUSALS },
  { from: PEER, id: `${PEER}-1`, kind: 'refusals', filter: null },
  { from: PEER, id: `${PEER}-2`, kind: 'events' },
  { from: PEER, id: `${PEER}-3`, kind: 'events', filter: { ...EVENTS, name: 5 } },
  { from: PEER, id: `${PEER}-4`, kind: 'events', filter: { ...EVENTS, name: 'x'.repeat(500_000) } },
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

function tell(subject: string, head: object, reply = ''): void {
  peer.publish(subject, `${JSON.stringify({ format: FORMAT, ...head })}\n`, reply === '' ? {} : { reply })
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
  it('cannot end the node by a watch of any form', async () => {
    for (const head of WATCHES) tell(WATCH, head)
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
    for (const name of ['now', 'refusals', 'last hour', 'constructor', 5]) {
      for (const question of [undefined, null, 5, {}, { app: 5, code: {}, limit: 'x', range: 'x' }]) {
        tell(ASK, { from: PEER, name, question }, `sluice.console.reply.${PEER}`)
      }
    }
    for (const head of [{}, { name: 'explain' }, { name: 'batch', query: 5 }, { name: '__proto__', query: '' }]) {
      tell(ONE, head, `sluice.console.reply.${PEER}`)
    }
    await isWell()
    expect(faults()).toEqual([])
  })

  it('cannot end the node by what it sends to those who watch', async () => {
    const ids: string[] = []
    const ends = [
      peer.subscribe(WATCH, {
        callback: (_, message) => void ids.push((JSON.parse(message.string()) as { id: string }).id),
      }),
      peer.subscribe(ASK, {
        callback: (_, message) => {
          for (const piece of [
            null,
            5,
            {},
            { refusals: [null], groups: 5 },
            { refusals: [null], groups: [null], minute: 1 },
            { accepted: null, refused: null },
            { node: 'x' },
          ]) {
            peer.publish(message.reply ?? '', `${JSON.stringify({ format: FORMAT, piece })}\n`)
          }
        },
      }),
    ]
    await peer.flush()
    for (const path of [
      '/api/refusals/stream?from_start=1',
      '/api/events/stream',
      '/api/alerts/stream',
      '/api/now/stream',
    ]) {
      const stream = await openEventStream(service.adminPort, path)
      await eventually('something was asked', () => ids.length > 0 || path.includes('now'))
      for (const id of ids) {
        for (const kind of ['item', 'rate', 'event', 'end', 5]) tell(`sluice.console.feed.${id}`, { kind })
        peer.publish(`sluice.console.feed.${id}`, `{"format":${FORMAT},"kind":"item"}\n{}\n\nevent: now\ndata: {}`)
      }
      await isWell()
      expect(stream.text).not.toContain('data: {}')
      expect(stream.events.filter(({ event }) => event === 'refusal').every(({ data }) => 'code' in data)).toBe(true)
      stream.close()
    }
    for (const end of ends) end.unsubscribe()
    expect(faults()).toEqual([])
  })

  it('gets no answer at a subject that is not an inbox', async () => {
    const got: string[] = []
    const end = peer.subscribe('sluice.events.*', { callback: (_, message) => void got.push(message.string()) })
    tell(ASK, { from: PEER, name: 'now', question: { range: null } }, 'sluice.events.3')
    tell(ONE, { name: 'apps', query: '', scope: 'all' }, 'sluice.events.3')
    const answered: string[] = []
    const inbox = peer.subscribe(`sluice.console.reply.${PEER}.1`, {
      callback: (_, message) => void answered.push(message.string()),
    })
    tell(ASK, { from: PEER, name: 'now', question: { range: null } }, `sluice.console.reply.${PEER}.1`)
    tell(ONE, { name: 'apps', query: '', scope: 'all' }, `sluice.console.reply.${PEER}.1`)
    await eventually('both are answered at an inbox', () => answered.length > 1)
    expect(got).toEqual([])
    end.unsubscribe()
    inbox.unsubscribe()
  })
})
