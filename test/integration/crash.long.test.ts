// kill -9 at random moments under load: nothing that was answered 202 is lost, nothing is stored twice,
// and what the month has counted is what the journal holds. SLUICE_TEST_CRASH_ROUNDS=100 is the long run.

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { batch, expectAccepted, expectRefused, post } from '../support/client.ts'
import { countByBatch, readJournal } from '../support/journal-files.ts'
import { openRaw, rawPost } from '../support/raw-http.ts'
import {
  appRecord,
  makeFolder,
  removeFolder,
  type Service,
  sleep,
  startService,
  writeApps,
} from '../support/service.ts'

const ROUNDS = Number(process.env['SLUICE_TEST_CRASH_ROUNDS'] ?? 5)
const SEED = Number(process.env['SLUICE_TEST_SEED'] ?? Date.now() % 1_000_000)
/** In a long run every so many rounds one lasts longer than the time between two snapshots of the counters. */
const SNAPSHOT_ROUNDS = 20
const SNAPSHOT_MS = 30_000
const CONNECTIONS = 12
const MONTH = 1_000_000_000
const APP = { events_per_minute: 1_000_000_000, events_per_month: MONTH, plan: 'trial' }

/** mulberry32: small, and the same on every machine. */
function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

interface Sent {
  readonly key: string | null
  readonly events: number
}

/** What clients know at the end: which batches were answered 202, and which keyed ones never were. */
interface Ledger {
  readonly acceptedUnkeyed: Map<string, number>
  readonly acceptedKeyed: Map<string, Sent & { readonly batchId: string }>
  readonly unanswered: Map<string, Sent>
}

let folder: string
let service: Service

beforeAll(async () => {
  folder = await makeFolder()
})

afterAll(async () => {
  await service?.kill()
  await removeFolder(folder)
})

function note(ledger: Ledger, sent: Sent, batchId: string): void {
  if (sent.key === null) {
    expect(ledger.acceptedUnkeyed.has(batchId), 'a batch id is never given twice').toBe(false)
    ledger.acceptedUnkeyed.set(batchId, sent.events)
    return
  }
  const known = ledger.acceptedKeyed.get(sent.key)
  if (known) expect(batchId, 'a key keeps its batch id').toBe(known.batchId)
  ledger.acceptedKeyed.set(sent.key, { ...sent, batchId })
  ledger.unanswered.delete(sent.key)
}

/** One connection that sends without pause until the service is gone. */
async function load(port: number, next: () => number, ledger: Ledger, pauseMs: number): Promise<void> {
  const connection = await openRaw(port)
  for (;;) {
    const keyed = next() < 0.6
    const sent: Sent = { key: keyed ? randomUUID() : null, events: 1 + Math.floor(next() * 20) }
    const headers = sent.key === null ? [] : [`Idempotency-Key: ${sent.key}`]
    if (sent.key !== null) ledger.unanswered.set(sent.key, sent)
    connection.write(rawPost(batch('ak_crash', sent.events), headers))
    const answer = await connection.readAnswer()
    if (!answer) break
    note(ledger, sent, expectAccepted(answer, sent.events))
    if (pauseMs > 0) await sleep(pauseMs)
  }
  connection.close()
}

/** Clients try again what was never answered, under its key: it is stored now, or was already. */
async function retry(ledger: Ledger): Promise<void> {
  for (const sent of ledger.unanswered.values()) {
    const answer = await post(service, batch('ak_crash', sent.events), { 'Idempotency-Key': String(sent.key) })
    const batchId = expectAccepted(answer, sent.events, answer.json['deduplicated'] === true)
    note(ledger, sent, batchId)
  }
}

test(
  `kill -9 in ${ROUNDS} rounds loses nothing and doubles nothing (SLUICE_TEST_SEED=${SEED})`,
  async () => {
    const next = random(SEED)
    const ledger: Ledger = { acceptedUnkeyed: new Map(), acceptedKeyed: new Map(), unanswered: new Map() }
    for (let round = 0; round < ROUNDS; round++) {
      service = await startService({ dataDir: folder, apps: [appRecord('crash', APP)] })
      await retry(ledger)
      const isLong = round % SNAPSHOT_ROUNDS === SNAPSHOT_ROUNDS - 1
      const loads = Array.from({ length: CONNECTIONS }, () => load(service.port, next, ledger, isLong ? 10 : 0))
      await sleep((isLong ? SNAPSHOT_MS : 30) + next() * 600)
      await service.kill()
      await Promise.all(loads)
    }
    service = await startService({ dataDir: folder })
    await retry(ledger)
    // Keys of every round are still remembered, whichever crash lies between.
    for (const sent of [...ledger.acceptedKeyed.values()].slice(-200)) {
      const answer = await post(service, batch('ak_crash', 1), { 'Idempotency-Key': String(sent.key) })
      expect(expectAccepted(answer, sent.events, true)).toBe(sent.batchId)
    }

    const records = readJournal(folder)
    const counts = countByBatch(records)
    const stored = new Map(records.map((record) => [record.batch_id, record.events.length]))
    expect([...counts].filter(([, count]) => count !== 1)).toEqual([])
    expect(ledger.acceptedUnkeyed.size).toBeGreaterThan(0)
    for (const [batchId, events] of ledger.acceptedUnkeyed) expect(stored.get(batchId)).toBe(events)
    for (const { batchId, events } of ledger.acceptedKeyed.values()) expect(stored.get(batchId)).toBe(events)
    expect(ledger.unanswered.size).toBe(0)

    const total = records.reduce((sum, record) => sum + record.events.length, 0)
    await service.stop()
    await writeApps(service.appsFile, [appRecord('crash', { ...APP, events_per_month: total + 5 })])
    service = await startService({ dataDir: folder })
    expectRefused(await post(service, batch('ak_crash', 6)), 429, 'monthly_limit_exceeded')
    expectAccepted(await post(service, batch('ak_crash', 5)), 5)
  },
  60_000 + ROUNDS * 12_000,
)
