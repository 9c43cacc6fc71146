// The public port under TLS: plain HTTP, handshakes that stop, break off or ask for more, harm nobody.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { request } from 'node:https'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { test as base, expect } from 'vitest'
import { single } from '../support/client.ts'
import { aService, tlsSettings } from '../support/fixture.ts'
import { expectClosed, readPage } from '../support/hostile.ts'
import { readJournal } from '../support/journal-files.ts'
import { openRaw, rawPost } from '../support/raw-http.ts'
import { appRecord, eventually, type Service } from '../support/service.ts'

const apps = [appRecord('plain', { events_per_minute: 1_000_000 })]
const test = base.extend(
  'service',
  { scope: 'file' },
  aService((dataDir) => ({ apps, env: tlsSettings(dataDir) })),
)

test.afterEach(({ service }) => expectUnharmed(service))

async function expectUnharmed(service: Service): Promise<void> {
  process.kill(service.pid, 0)
  expect(await postOverTls(service)).toBe(202)
  await eventually('nothing is left in hand', async () => {
    const page = await readPage(service)
    const outcomes = page['sluice_requests_total']
    expect(outcomes + page['sluice_requests_in_flight']).toBe(page['sluice_requests_received_total'])
    return page['sluice_requests_in_flight'] === 0
  })
}

function postOverTls(service: Service): Promise<number> {
  return new Promise((done, fail) => {
    const options = { host: '127.0.0.1', port: service.port, path: '/api/v1/events', method: 'POST', agent: false }
    const headers = { 'Content-Type': 'application/json' }
    const outgoing = request({ ...options, headers, rejectUnauthorized: false }, (response) => {
      response.resume().on('end', () => done(response.statusCode ?? 0))
    })
    outgoing.on('error', fail)
    outgoing.end(single('ak_plain'))
  })
}

async function openTls(service: Service): Promise<TLSSocket> {
  const socket = connectTls({ host: '127.0.0.1', port: service.port, rejectUnauthorized: false })
  socket.on('error', () => {})
  await once(socket, 'secureConnect')
  return socket
}

/** The first bytes that a client of TLS sends. */
async function firstFlight(): Promise<Buffer> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const client = connectTls({ host: '127.0.0.1', port, rejectUnauthorized: false })
  client.on('error', () => {})
  const [socket] = (await once(server, 'connection')) as [Socket]
  const [bytes] = (await once(socket, 'data')) as [Buffer]
  client.destroy()
  socket.destroy()
  server.close()
  return bytes
}

test('plain HTTP is not served, and nothing of it is stored', async ({ service }) => {
  const stored = readJournal(service.dataDir).length
  const raw = await openRaw(service.port)
  raw.write(rawPost(single('ak_plain')))
  await expectClosed(raw)
  expect(raw.unread()).not.toContain('HTTP/1.1')
  expect(readJournal(service.dataDir).length).toBe(stored)
})

test('silence after the handshake: the connection is closed by the engine', async ({ service }) => {
  const socket = await openTls(service)
  let heard = ''
  socket.on('data', (piece: Buffer) => (heard += piece.toString('latin1')))
  await once(socket, 'close')
  expect(heard).toBe('')
})

test('silence before the handshake, and clients that leave in the middle of it, leave no connection behind', async ({
  service,
}) => {
  const hello = await firstFlight()
  const raws = await Promise.all(Array.from({ length: 60 }, () => openRaw(service.port)))
  for (const [index, raw] of raws.entries()) {
    if (index % 3 > 0) raw.write(hello.subarray(0, index % 3 === 1 ? hello.length : 40))
  }
  expect(await postOverTls(service)).toBe(202)
  for (const [index, raw] of raws.entries()) {
    if (index % 2 === 0) raw.socket.resetAndDestroy()
    else raw.close()
  }
  await eventually('they are gone', async () => (await readPage(service))['sluice_connections'] === 0)
})

test('a handshake that goes on as nonsense ends the connection', async ({ service }) => {
  const raw = await openRaw(service.port)
  raw.write(Buffer.concat([await firstFlight(), Buffer.alloc(2000, 0x5a)]))
  await expectClosed(raw)
})

test('a connection that is reset after its request, before its answer: the batch is stored', async ({ service }) => {
  const stored = readJournal(service.dataDir).length
  const socket = await openTls(service)
  await new Promise((done) => socket.write(rawPost(single('ak_plain')), done))
  await eventually('it is stored', () => readJournal(service.dataDir).length === stored + 1)
  socket.destroy()
})

test('5,000 requests in one write, then a reset', async ({ service }) => {
  const { process_start_time_seconds: startedAt } = await readPage(service)
  for (let round = 0; round < 5; round++) {
    const socket = await openTls(service)
    socket.pause()
    await new Promise((done) => socket.write('GET /x HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(5000), done))
    socket.destroy()
  }
  await eventually('they are gone', async () => (await readPage(service))['sluice_connections'] === 0)
  expect((await readPage(service))['process_start_time_seconds']).toBe(startedAt)
})

test('a client that asks to renegotiate, again and again, is served once or turned away', async ({ service }) => {
  // TLS 1.2 alone knows of it. R alone on a line is what asks for it.
  const args = ['s_client', '-connect', `127.0.0.1:${service.port}`, '-tls1_2', '-legacy_renegotiation']
  const client = spawn('openssl', args, { stdio: ['pipe', 'pipe', 'pipe'] })
  let output = ''
  client.stdout.on('data', (piece: Buffer) => (output += piece.toString('latin1')))
  client.stderr.on('data', (piece: Buffer) => (output += piece.toString('latin1')))
  client.stdin.on('error', () => {})
  await eventually('the handshake is done', () => output.includes('Verify return code'))
  const ask = setInterval(() => client.stdin.write('R\n'), 20)
  try {
    await Promise.race([
      once(client, 'exit'),
      eventually('it has asked', () => output.split('RENEGOTIATING').length > 3),
    ])
  } finally {
    clearInterval(ask)
    client.kill('SIGKILL')
  }
  expect(output).toContain('RENEGOTIATING')
})
