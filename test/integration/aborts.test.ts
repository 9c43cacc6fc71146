// Clients that leave during or after a body: every request is counted once, and all room is freed.

import { test as base, expect } from 'vitest'
import { bodyOfSize, expectAccepted, MAX_BODY_BYTES, single } from '../support/client.ts'
import { aService } from '../support/fixture.ts'
import { ended, type Page, readPage, untilRead } from '../support/hostile.ts'
import { head, openRaw, rawPost } from '../support/raw-http.ts'
import { appRecord, eventually, type Service } from '../support/service.ts'

/** With this ring, large partial bodies may take 1 MiB. */
const AT_ONCE = 10
const SENT_BYTES = 48_000
const ROUNDS = 8

const test = base.extend(
  'service',
  { scope: 'file' },
  aService({ apps: [appRecord('plain')], env: { SLUICE_RING_MB: '8' } }),
)

async function expectNothingInHand(service: Service, received: number): Promise<Page> {
  await eventually('every request has come and gone', async () => {
    const now = await readPage(service)
    return now['sluice_requests_received_total'] === received && now['sluice_requests_in_flight'] === 0
  })
  const now = await readPage(service)
  expect(now).toMatchObject({ sluice_requests_in_flight: 0, sluice_ring_requests: 0, sluice_ring_used_bytes: 0 })
  expect(now['sluice_requests_total']).toBe(received)
  return now
}

/** A body of the largest size, in pieces, beside another: both are served only where the room of all others is free. */
async function expectLargeBodiesServed(service: Service): Promise<void> {
  const body = bodyOfSize('ak_plain', MAX_BODY_BYTES - 20_000)
  const pair = await Promise.all([openRaw(service.port), openRaw(service.port)])
  for (const raw of pair) raw.write(head(['Content-Type: application/json', `Content-Length: ${body.length}`]))
  for (let at = 0; at < body.length; at += 100_000) {
    for (const raw of pair) raw.write(body.slice(at, at + 100_000))
    await untilRead(service)
  }
  for (const raw of pair) {
    const answer = await raw.readAnswer()
    if (answer === null) throw new Error('a large body got no answer')
    expectAccepted(answer, 1)
    raw.close()
  }
}

test('clients that leave during a body are counted, and leave no room in use', async ({ service }) => {
  for (let round = 1; round <= ROUNDS; round++) {
    const raws = await Promise.all(Array.from({ length: AT_ONCE }, () => openRaw(service.port)))
    for (const raw of raws) {
      raw.write(head(['Content-Type: application/json', 'Content-Length: 100000']) + 'x'.repeat(SENT_BYTES))
    }
    // What is reset before it was read was never there.
    await eventually(
      'all heads are read',
      async () => (await readPage(service))['sluice_requests_in_flight'] === AT_ONCE,
    )
    for (const [index, raw] of raws.entries()) {
      if (index % 2 === 0) raw.close()
      else raw.socket.resetAndDestroy()
    }
    const now = await expectNothingInHand(service, round * AT_ONCE)
    // None of them had to give way to another.
    expect(ended(now, 'aborted')).toBe(round * AT_ONCE)
  }
  await expectLargeBodiesServed(service)
})

test('clients that leave after their whole body are counted by its outcome', async ({ service }) => {
  const before = await readPage(service)
  const body = single('ak_plain', { padding: 'x'.repeat(30_000) })
  let sent = 0
  for (let round = 0; round < ROUNDS; round++) {
    const raws = await Promise.all(Array.from({ length: AT_ONCE }, () => openRaw(service.port)))
    for (const [index, raw] of raws.entries()) {
      raw.write(rawPost(body))
      // The request may be at any stage by then. After an orderly close it has arrived.
      if (round % 2 === 0) raw.socket.end()
      else setTimeout(() => raw.socket.resetAndDestroy(), index)
    }
    sent += AT_ONCE
    await Promise.all(raws.map(({ closed }) => closed))
    for (const raw of raws) raw.close()
  }
  await eventually('nothing is in flight', async () => (await readPage(service))['sluice_requests_in_flight'] === 0)
  const received = (await readPage(service))['sluice_requests_received_total'] ?? 0
  expect(received - (before['sluice_requests_received_total'] ?? 0)).toBeGreaterThan(sent / 2)
  await expectNothingInHand(service, received)
  await expectLargeBodiesServed(service)
})

test('large bodies in pieces, pair after pair, are all served and counted once', async ({ service }) => {
  const before = (await readPage(service))['sluice_requests_received_total'] ?? 0
  for (let pair = 0; pair < 3; pair++) await expectLargeBodiesServed(service)
  await expectNothingInHand(service, before + 6)
})
