// What clients do, however often, fills no log, and is never called a bug of the service.

import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { expectAccepted, post, single } from '../support/client.ts'
import { tlsSettings } from '../support/fixture.ts'
import { head, openRaw } from '../support/raw-http.ts'
import { appRecord, eventually, makeFolder, type Service, startService } from '../support/service.ts'

const LANES = 8
const CONNECTIONS = 800
/** A start, a stop and a few lines of causes that a client has; each more than once would be hundreds. */
const MOST_LINES = 12

const HALF_BODY = 'Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{'
const HALF_CHUNKS = 'Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{'

/** By the port that gets them. */
const SENT = {
  port: [
    head(['Content-Type: application/json', 'Content-Length: 10']) + '{',
    'POST /api/v1/events HTTP/1.1\r\nHost: a',
    'nonsense\r\n\r\n',
    '\u0016\u0003\u0001\u0002',
    head(['Content-Type: application/json', 'Content-Length: 5']) + '{{{{{',
  ],
  adminPort: [
    `POST /api/session HTTP/1.1\r\n${HALF_BODY}`,
    `POST /api/explain HTTP/1.1\r\n${HALF_BODY}`,
    `POST /api/explain HTTP/1.1\r\n${HALF_CHUNKS}`,
    `PUT /api/apps/shop HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef\r\n${HALF_BODY}`,
    'GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n',
    'GET /api/now/stream HTTP/1.1\r\nHost: localhost\r\n\r\n',
    'nonsense\r\n\r\n',
  ],
  portalPort: [
    `POST /api/session HTTP/1.1\r\n${HALF_BODY}`,
    `POST /api/session HTTP/1.1\r\n${HALF_CHUNKS}`,
    'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n',
    'nonsense\r\n\r\n',
  ],
} as const

/** Each connection sends one of the texts, and resets once the service has it. */
async function flood(port: number, texts: readonly string[], count: number): Promise<void> {
  let sent = 0
  const lane = async (): Promise<void> => {
    while (sent < count) {
      const text = texts[sent++ % texts.length]
      await new Promise<void>((done) => {
        const socket = connect(port, '127.0.0.1', () => {
          socket.write(text, () => setImmediate(() => socket.resetAndDestroy()))
        })
        socket.on('error', () => {})
        socket.on('close', () => done())
      })
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
}

async function expectQuiet(service: Service, isTls = false): Promise<void> {
  if (!isTls) expectAccepted(await post(service, single('ak_shop')), 1)
  expect(await service.stop()).toMatchObject({ code: 0 })
  const lines = service
    .output()
    .split('\n')
    .filter((line) => line !== '')
  expect(lines.filter((line) => line.includes('bug'))).toEqual([])
  expect(lines.length, service.output().slice(0, 5000)).toBeLessThan(MOST_LINES)
}

const start = async (env: Readonly<Record<string, string>> = {}): Promise<Service> =>
  startService({
    apps: [appRecord('shop')],
    env: { SLUICE_CONSOLE_TOKEN: '0123456789abcdef0123456789abcdef', SLUICE_PORTAL_PORT: '0', ...env },
  })

test('half requests, nonsense and resets, on each port', async () => {
  const service = await start()
  for (const which of ['port', 'adminPort', 'portalPort'] as const)
    await flood(service[which], SENT[which], CONNECTIONS)
  await expectQuiet(service)
})

test('a client that leaves when its body has begun, seen to have arrived', async () => {
  const service = await start()
  for (const [which, texts] of Object.entries(SENT)) {
    for (const text of texts.filter((one) => one.includes('Content-Length: 10'))) {
      const raw = await openRaw(service[which as keyof typeof SENT])
      raw.write(text)
      await eventually(
        'another request is answered behind it',
        async () => (await fetch(`http://127.0.0.1:${service.adminPort}/livez`)).ok,
      )
      raw.close()
    }
  }
  await expectQuiet(service)
})

test('handshakes that are none, or end half-way', async () => {
  const folder = await makeFolder()
  const service = await start(tlsSettings(folder))
  await flood(
    service.port,
    [...SENT.port, '\u0016\u0003\u0001\u0000\u0005hello', 'GET / HTTP/1.1\r\n\r\n'],
    CONNECTIONS,
  )
  await expectQuiet(service, true)
})

test('more connections than there may be', async () => {
  const service = await start({ SLUICE_MAX_CONNECTIONS: '2' })
  const held = await Promise.all([openRaw(service.port), openRaw(service.port)])
  await flood(service.port, SENT.port, CONNECTIONS)
  expect(service.output().split('too many connections').length - 1).toBeLessThan(3)
  for (const raw of held) raw.close()
  await expectQuiet(service, true)
})
