// Bodies in pieces of a byte, and slow uploads that take every place.

import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { expectAccepted, post, single } from '../support/client.ts'
import { expectClosed, hostileService, readPage } from '../support/hostile.ts'
import { head, openRaw } from '../support/raw-http.ts'
import { eventually } from '../support/service.ts'

const CHUNKED = ['Content-Type: application/json', 'Transfer-Encoding: chunked']
const FRAGMENTED = 'sluice_connections_closed_total{reason="fragmented"}'

function inChunksOfOneByte(body: string): string {
  return `${Array.from(body, (byte) => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`
}

describe('a body in chunks of one byte', () => {
  const hostile = hostileService()

  test('is served where it is an ordinary batch', async () => {
    const raw = await openRaw(hostile.service.port)
    raw.write(head(CHUNKED) + inChunksOfOneByte(single('ak_plain')))
    const answer = await raw.readAnswer()
    if (answer === null) expect.fail('no answer')
    expectAccepted(answer, 1)
    raw.close()
  })

  test('ends its connection where one read holds 85,000 of them, and is counted', async () => {
    const before = await readPage(hostile.service)
    const raw = await openRaw(hostile.service.port)
    raw.write(head(CHUNKED) + inChunksOfOneByte(`"${'x'.repeat(85_000)}"`))
    await expectClosed(raw)
    expect(raw.unread()).toBe('')
    const page = await readPage(hostile.service)
    expect((page[FRAGMENTED] ?? 0) - (before[FRAGMENTED] ?? 0)).toBe(1)
  })
})

describe('slow uploads that take nine tenths of all connections', () => {
  const MOST = 20
  const hostile = hostileService({ SLUICE_MAX_CONNECTIONS: String(MOST) })

  test('are cut off by the engine, so that others get a place', async () => {
    const sockets = Array.from({ length: MOST }, () => connect(hostile.service.port, '127.0.0.1'))
    for (const socket of sockets) {
      socket.on('error', () => {})
      socket.write(head(['Content-Type: application/json', 'Content-Length: 500000']))
    }
    const drip = setInterval(() => {
      for (const socket of sockets) if (!socket.destroyed) socket.write('x'.repeat(600))
    }, 500)
    try {
      await eventually(
        'an honest client gets in',
        async () => (await post(hostile.service, single('ak_plain')).catch(() => null))?.status === 202,
        30_000,
      )
    } finally {
      clearInterval(drip)
      for (const socket of sockets) socket.destroy()
    }
  })
})
