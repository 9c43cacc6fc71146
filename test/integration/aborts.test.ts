// Clients that leave during or after a body: every request is counted once, and all room is freed.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { bodyOfSize, expectAccepted, get, MAX_BODY_BYTES, single } from '../support/client.ts'
import { head, openRaw, rawPost } from '../support/raw-http.ts'
import {
  appRecord,
  eventually,
  makeFolder,
  removeFolder,
  type Service,
  sleep,
  startService,
} from '../support/service.ts'

/** With the smallest ring, partial bodies may take 1 MiB. */
const AT_ONCE = 10
const SENT_BYTES = 48_000
const ROUNDS = 8

let folder: string
let service: Service

beforeAll(async () => {
  folder = await makeFolder()
  service = await startService({ dataDir: folder, apps: [appRecord('plain')], env: { SLUICE_RING_MB: '4' } })
})

afterAll(async () => {
  await service?.kill()
  await removeFolder(folder)
})

/** Values of the page by name, summed over labels; `aborted` is the only outcome that is also given by itself. */
async function figures(): Promise<Record<string, number>> {
  const sums: Record<string, number> = {}
  for (const line of (await get(service.adminPort, '/metrics')).text.split('\n')) {
    const found = /^(sluice_\w+)(\{[^}]*\})? (\S+)$/.exec(line)
    if (found === null) continue
    const [, name = '', labels = '', value] = found
    sums[name] = (sums[name] ?? 0) + Number(value)
    if (name === 'sluice_requests_total' && labels.includes('aborted')) sums['aborted'] = Number(value)
  }
  return sums
}

async function expectNothingInHand(received: number): Promise<Record<string, number>> {
  await eventually('every request has come and gone', async () => {
    const now = await figures()
    return now['sluice_requests_received_total'] === received && now['sluice_requests_in_flight'] === 0
  })
  const now = await figures()
  expect(now).toMatchObject({ sluice_requests_in_flight: 0, sluice_ring_requests: 0, sluice_ring_used_bytes: 0 })
  expect(now['sluice_requests_total']).toBe(received)
  return now
}

/** Two bodies of the largest size, in pieces: both are served only where all other room is free. */
async function expectLargeBodiesServed(): Promise<void> {
  const body = bodyOfSize('ak_plain', MAX_BODY_BYTES - 20_000)
  const pair = await Promise.all([openRaw(service.port), openRaw(service.port)])
  for (const raw of pair) raw.write(head(['Content-Type: application/json', `Content-Length: ${body.length}`]))
  for (let at = 0; at < body.length; at += 100_000) {
    for (const raw of pair) raw.write(body.slice(at, at + 100_000))
    await sleep(20)
  }
  for (const raw of pair) {
    const answer = await raw.readAnswer()
    if (answer === null) throw new Error('a large body got no answer')
    expectAccepted(answer, 1)
    raw.close()
  }
}

test('clients that leave during a body are counted, and leave no room in use', async () => {
  for (let round = 1; round <= ROUNDS; round++) {
    const raws = await Promise.all(Array.from({ length: AT_ONCE }, () => openRaw(service.port)))
    for (const raw of raws) {
      raw.write(head(['Content-Type: application/json', 'Content-Length: 100000']) + 'x'.repeat(SENT_BYTES))
    }
    // A request that is reset before it was read does not count.
    await eventually('all heads are read', async () => (await figures())['sluice_requests_in_flight'] === AT_ONCE)
    for (const [index, raw] of raws.entries()) {
      if (index % 2 === 0) raw.close()
      else raw.socket.resetAndDestroy()
    }
    const now = await expectNothingInHand(round * AT_ONCE)
    // None of them was evicted.
    expect(now['aborted']).toBe(round * AT_ONCE)
  }
  await expectLargeBodiesServed()
})

test('clients that leave after their whole body are counted by its outcome', async () => {
  const before = await figures()
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
    await sleep(30)
    for (const raw of raws) raw.close()
  }
  await eventually('nothing is in flight', async () => (await figures())['sluice_requests_in_flight'] === 0)
  const received = (await figures())['sluice_requests_received_total'] ?? 0
  expect(received - (before['sluice_requests_received_total'] ?? 0)).toBeGreaterThan(sent / 2)
  await expectNothingInHand(received)
  await expectLargeBodiesServed()
})

test('large bodies in pieces, pair after pair, are all served and counted once', async () => {
  const before = (await figures())['sluice_requests_received_total'] ?? 0
  for (let pair = 0; pair < 3; pair++) await expectLargeBodiesServed()
  await expectNothingInHand(before + 6)
})
