// Watchers of the console that read nothing, or are too many: the service, and the others who watch, do not notice.

import { connect, type Socket } from 'node:net'
import { test as base, expect } from 'vitest'
import { events, get, post, single } from '../support/client.ts'
import { type EventStream, openEventStream } from '../support/event-stream.ts'
import { aService } from '../support/fixture.ts'
import { metricsOf } from '../support/processes.js'
import { appRecord, eventually, type Service } from '../support/service.ts'

const MAX_WATCHERS = 50
const MIB = 1_048_576
/** What fifty streams may hold in buffers, with what collection leaves for a while. Without a bound they would hold 600 MiB. */
const MAX_GROWTH_BYTES = 192 * MIB
/** As large as the console shows them whole, so that a socket is soon full. */
const EVENT_BYTES = 60_000

const test = base.extend('service', { scope: 'test' }, aService({ apps: [appRecord('shop')] }))

async function residentBytes(service: Service): Promise<number> {
  return (await metricsOf(service)).get('process_resident_memory_bytes') ?? Number.NaN
}

/** Asks for the stream and never reads. */
function openUnread(service: Service): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(service.adminPort, '127.0.0.1', () => {
      socket.pause()
      socket.write('GET /api/events/stream HTTP/1.1\r\nHost: localhost\r\n\r\n', () => resolve(socket))
    })
    socket.on('error', reject)
  })
}

const shown = (stream: EventStream): number => stream.events.filter(({ event }) => event === 'event').length

test('watchers that read nothing hold up nobody, and memory stays', async ({ service }) => {
  await post(service, single('ak_shop'))
  const before = await residentBytes(service)
  const unread = await Promise.all(Array.from({ length: MAX_WATCHERS - 1 }, () => openUnread(service)))
  const reading = await openEventStream(service.adminPort, '/api/events/stream')
  const body = JSON.stringify({
    app_key: 'ak_shop',
    events: events(8, {
      properties: Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`p${at}`, 'x'.repeat(500)])),
    }),
  })
  expect(body.length).toBeGreaterThan(3 * EVENT_BYTES)
  await eventually(
    'the one that reads has got more than a socket holds',
    async () => {
      // As many as are shown of half a second: what is left out would cost its app bytes, and show nothing.
      const shownBytes = reading.text.length
      for (let sent = 0; sent < 3; sent++) expect((await post(service, body)).status).toBe(202)
      await eventually('they are shown', () => reading.text.length > shownBytes)
      return reading.text.length > 12 * MIB
    },
    200_000,
  )
  expect((await residentBytes(service)) - before).toBeLessThan(MAX_GROWTH_BYTES)
  reading.close()
  for (const socket of unread) socket.destroy()
})

test('the fifty-first watcher is refused with a sentence, and there is room again when one leaves', async ({
  service,
}) => {
  const streams = await Promise.all(
    Array.from({ length: MAX_WATCHERS }, () => openEventStream(service.adminPort, '/api/events/stream')),
  )
  const refused = await get(service.adminPort, '/api/events/stream')
  expect([refused.status, refused.json['error']]).toEqual([503, 'too_many_watchers'])
  expect((await get(service.adminPort, '/api/now')).status).toBe(200)
  streams[0].close()
  let last: EventStream | null = null
  await eventually('another one may watch', async () => {
    last = await openEventStream(service.adminPort, '/api/events/stream').catch(() => null)
    return last !== null
  })
  await post(service, single('ak_shop'))
  await eventually('all see the event', () =>
    [...streams.slice(1), last].every((one) => one !== null && shown(one) > 0),
  )
  for (const stream of [...streams, last]) stream?.close()
})

test('a drain ends the streams', async ({ service }) => {
  const stream = await openEventStream(service.adminPort, '/api/now/stream')
  const exit = await service.stop()
  expect(exit.code).toBe(0)
  await eventually('the stream has ended', () => stream.isEnded)
})
