// A client that behaves as SDKs should: a key for each batch, and the same key again, on the next node, until it is
// accepted. It keeps every answer, so that at the end what clients know can be held against what was stored.

import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { batch, expectSound, post } from './client.ts'
import type { StoredRecord } from './journal-files.ts'
import { sleep } from './service.ts'
import { StoredOnce } from './stored-once.js'

/** Pause before a batch is tried again. Retry-After asks for longer; the load is there to try. */
const RETRY_MS = 200
/** How long a batch is tried again once the load was told to stop. */
const GIVE_UP_MS = 30_000

export interface Try {
  /** 0: the connection ended without an answer. */
  readonly status: number
  readonly error: string | null
  readonly deduplicated: boolean
  readonly tookMs: number
}

export interface SentBatch {
  readonly appKey: string
  /** null: sent without a key, and so never twice. */
  readonly key: string | null
  readonly events: number
  readonly tries: Try[]
  /** Of its 202; null: there was none. */
  batchId: string | null
}

export interface LoadOptions {
  readonly ports: () => readonly number[]
  readonly appKey: string
  /** One in so many batches goes without a key; 0: none. */
  readonly unkeyedEvery?: number
  readonly workers?: number
  readonly pauseMs?: number
  /** 1 to so many events a batch. */
  readonly maxEvents?: number
}

export interface RunningLoad {
  readonly batches: readonly SentBatch[]
  /** No new batches; those not accepted yet are tried until they are. */
  stop(): Promise<readonly SentBatch[]>
}

export function startLoad(options: LoadOptions): RunningLoad {
  const { ports, appKey, unkeyedEvery = 0, workers = 4, pauseMs = 20, maxEvents = 5 } = options
  const batches: SentBatch[] = []
  let stoppedAtMs = Number.POSITIVE_INFINITY
  let turn = 0

  const nextPort = (): number => {
    const open = ports()
    turn += 1
    return open[turn % open.length]
  }

  async function send(sent: SentBatch, body: string): Promise<void> {
    const headers: Record<string, string> = sent.key === null ? {} : { 'Idempotency-Key': sent.key }
    for (;;) {
      const answered = await tryOnce(nextPort(), body, headers)
      sent.tries.push(answered)
      if (answered.status === 202) sent.batchId = answered.batchId
      const mayPass = answered.status === 503 || answered.status === 0
      if (!mayPass || sent.key === null || Date.now() > stoppedAtMs + GIVE_UP_MS) return
      await sleep(RETRY_MS)
    }
  }

  async function work(): Promise<void> {
    while (stoppedAtMs === Number.POSITIVE_INFINITY) {
      const at = batches.length
      const key = unkeyedEvery > 0 && at % unkeyedEvery === 0 ? null : randomUUID()
      const sent: SentBatch = { appKey, key, events: 1 + (at % maxEvents), tries: [], batchId: null }
      batches.push(sent)
      await send(sent, batch(appKey, sent.events))
      await sleep(pauseMs)
    }
  }

  const working = Array.from({ length: workers }, work)
  return {
    batches,
    stop: async () => {
      stoppedAtMs = Date.now()
      await Promise.all(working)
      return batches
    },
  }
}

async function tryOnce(
  port: number,
  body: string,
  headers: Record<string, string>,
): Promise<Try & { batchId: string | null }> {
  const startedAtMs = performance.now()
  const answer = await post({ port }, body, headers).catch(() => null)
  const tookMs = performance.now() - startedAtMs
  if (answer === null) return { status: 0, error: null, deduplicated: false, tookMs, batchId: null }
  expectSound(answer)
  return {
    status: answer.status,
    error: answer.status === 202 ? null : String(answer.json['error']),
    deduplicated: answer.json['deduplicated'] === true,
    tookMs,
    batchId: answer.status === 202 ? String(answer.headers['x-batch-id']) : null,
  }
}

export function acceptedOf(batches: readonly SentBatch[]): SentBatch[] {
  return batches.filter(({ batchId }) => batchId !== null)
}

export function eventsOf(batches: readonly { readonly events: number }[]): number {
  return batches.reduce((sum, { events }) => sum + events, 0)
}

/** How often each status was answered. */
export function statusCounts(batches: readonly SentBatch[]): Record<number, number> {
  const counts: Record<number, number> = {}
  for (const { status } of batches.flatMap(({ tries }) => tries)) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

/** Every 202 is stored once and whole, and nothing is stored twice or under an id that no client was told. */
export function expectStoredOnce(records: readonly StoredRecord[], batches: readonly SentBatch[]): void {
  const faults: string[] = []
  const accepted = acceptedOf(batches).map(({ batchId, events }) => ({
    id: String(batchId),
    accepted: true,
    isWhole: (stored: readonly unknown[]) => stored.length === events,
  }))
  const once = new StoredOnce(accepted, (kind, id) => faults.push(`${kind}: ${id}`))
  for (const record of records) once.take(record)
  once.end()
  expect(faults).toEqual([])
  // The others were refused, and only one that was answered 503, or not at all, may be stored all the same.
  const inDoubt = batches.filter(
    ({ batchId, tries }) => batchId === null && tries.some(({ status }) => status === 503 || status === 0),
  )
  expect(once.strays.size, 'stored without a 202').toBeLessThanOrEqual(inDoubt.length)
}
