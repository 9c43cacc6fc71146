// More bodies than the ring can hold: those without room are refused at once, the others are served, and it recovers.

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test as base, expect } from 'vitest'
import { bodyOfSize, expectAccepted, expectRefused, post, single } from '../support/client.ts'
import { aService } from '../support/fixture.ts'
import { readJournal } from '../support/journal-files.ts'
import { metricsOf } from '../support/processes.js'
import { head, openRaw } from '../support/raw-http.ts'
import { appRecord, eventually } from '../support/service.ts'
import { storedFaults } from '../support/stored-once.js'

const RING_MB = 4
const BODY_BYTES = 500_000

const test = base.extend(
  'service',
  { scope: 'file' },
  aService({ apps: [appRecord('plain', { events_per_minute: 1_000_000 })], env: { SLUICE_RING_MB: String(RING_MB) } }),
)

function residentMb(pid: number): number {
  const found = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return Number(found?.[1] ?? 0) / 1024
}

test('many large bodies at once: some are served, some get 503, and each is stored once when it is sent again', async ({
  service,
}) => {
  const body = Buffer.from(bodyOfSize('ak_plain', BODY_BYTES))
  const accepted = new Map<string, string>()
  const refused: string[] = []
  // A burst does not overflow the ring on every machine: the bursts grow until one does.
  for (let width = 48; width <= 192 && refused.length === 0; width *= 2) {
    const keys = Array.from({ length: width }, () => randomUUID())
    const answers = await Promise.all(keys.map((key) => post(service, body, { 'Idempotency-Key': key })))
    for (const [index, answer] of answers.entries()) {
      if (answer.status === 202) accepted.set(keys[index], expectAccepted(answer, 1))
      else {
        expectRefused(answer, 503, 'service_overloaded')
        const seconds = Number(answer.headers['retry-after'])
        expect(seconds).toBeGreaterThanOrEqual(1)
        expect(seconds).toBeLessThanOrEqual(5)
        refused.push(keys[index])
      }
    }
  }
  expect(accepted.size).toBeGreaterThan(0)
  expect(refused.length).toBeGreaterThan(0)
  expect(readJournal(service.dataDir), 'a 503 stores nothing').toHaveLength(accepted.size)
  // Sent again under its key each is accepted once: what was refused now, what was accepted then.
  for (const [key, batchId] of accepted)
    expect(expectAccepted(await post(service, body, { 'Idempotency-Key': key }), 1, true)).toBe(batchId)
  for (const key of refused) accepted.set(key, expectAccepted(await post(service, body, { 'Idempotency-Key': key }), 1))
  const records = readJournal(service.dataDir)
  expect(storedFaults(records, [...accepted.values()])).toEqual([])
  expect(records).toHaveLength(accepted.size)
})

test('afterwards everything is served again, and the ring is empty', async ({ service }) => {
  for (let i = 0; i < 50; i++) expectAccepted(await post(service, single('ak_plain')), 1)
  expectAccepted(await post(service, bodyOfSize('ak_plain', BODY_BYTES)), 1)
  const page = await metricsOf(service)
  expect(page.get('sluice_ring_used_bytes')).toBe(0)
  expect(page.get('sluice_ring_requests')).toBe(0)
})

test('a thousand large unfinished bodies take no more memory than their bounds', async ({ service }) => {
  const beforeMb = residentMb(service.pid)
  const part = `{"app_key":"ak_plain","padding":"${'p'.repeat(400_000)}`
  const connections = await Promise.all(
    Array.from({ length: 1000 }, async () => {
      const raw = await openRaw(service.port)
      raw.write(head(['Content-Type: application/json', `Content-Length: ${BODY_BYTES}`]) + part)
      return raw
    }),
  )
  try {
    await eventually('each is read, or turned away', () =>
      connections.every(({ socket }) => socket.destroyed || socket.readableEnded || socket.writableLength === 0),
    )
    // 400 MB were sent; the service may hold its ring, and about as much beside it.
    expect(residentMb(service.pid) - beforeMb).toBeLessThan(160)
    const answer = await post(service, single('ak_plain'))
    if (answer.status === 202) expectAccepted(answer, 1)
    else expectRefused(answer, 503, 'service_overloaded')
  } finally {
    for (const raw of connections) raw.close()
  }
  await eventually(
    'the service takes bodies again',
    async () => (await post(service, single('ak_plain'))).status === 202,
  )
  for (let i = 0; i < 20; i++) expectAccepted(await post(service, single('ak_plain')), 1)
})
