// Random histories of a journal against a naive model: writes, failing disks, kills, restarts, snapshots, passing days.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { type Journal, openJournal } from '../../../../src/queue/journal/journal.ts'
import { recover } from '../../../../src/queue/journal/recovery.ts'
import { journalDirectory } from '../../../../src/queue/journal/segments.ts'
import { writeSnapshot } from '../../../../src/queue/journal/snapshot.ts'
import type { QueueAck } from '../../../../src/queue/queue.ts'
import { FailingDisk, makeRecord, readNaively, timersWithoutIntervals } from '../../../support/journal.ts'
import { makeFolder } from '../../../support/service.ts'

type Usage = Record<string, number>

type Step =
  | {
      readonly kind: 'write'
      readonly count: number
      readonly events: number
      readonly app: string
      readonly keyed: boolean
    }
  | { readonly kind: 'fail'; readonly how: 'short' | 'torn' | 'unsynced' | 'none' }
  | { readonly kind: 'stuck'; readonly isStuck: boolean }
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'snapshot' }
  | { readonly kind: 'restart' }
  | { readonly kind: 'kill'; readonly count: number; readonly at: number }

const writing = fc.record({
  kind: fc.constant('write' as const),
  count: fc.integer({ min: 1, max: 6 }),
  events: fc.integer({ min: 0, max: 5 }),
  app: fc.constantFrom('a', 'b'),
  keyed: fc.boolean(),
})
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: writing },
  { weight: 2, arbitrary: fc.constantFrom(1000, 4000, 40_000, 200_000).map((ms): Step => ({ kind: 'pass', ms })) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('short', 'torn', 'unsynced', 'none').map((how): Step => ({ kind: 'fail', how })),
  },
  { weight: 1, arbitrary: fc.boolean().map((isStuck): Step => ({ kind: 'stuck', isStuck })) },
  { weight: 2, arbitrary: fc.constant<Step>({ kind: 'snapshot' }) },
  { weight: 1, arbitrary: fc.constant<Step>({ kind: 'restart' }) },
  {
    weight: 2,
    arbitrary: fc
      .record({ count: fc.integer({ min: 1, max: 8 }), at: fc.double({ min: 0, max: 1, noNaN: true }) })
      .map(({ count, at }): Step => ({ kind: 'kill', count, at })),
  },
)

class Life {
  readonly #dataDirectory: string
  #disk = new FailingDisk()
  #journal: Journal | null = null
  #nowMs = 1_800_000_000_000
  #usage: Usage = {}
  readonly #durable = new Set<string>()
  readonly #refused = new Set<string>()

  constructor(dataDirectory: string) {
    this.#dataDirectory = dataDirectory
  }

  async take(next: Step): Promise<void> {
    if (next.kind === 'write') await this.#write(next)
    else if (next.kind === 'fail') this.#disk.nextAppend = next.how
    else if (next.kind === 'stuck') this.#disk.failsTruncate = next.isStuck
    else if (next.kind === 'pass') this.#nowMs += next.ms
    else if (next.kind === 'snapshot') await this.#snapshot()
    else if (next.kind === 'kill') await this.#kill(next.count, next.at)
    else await this.stop()
    if (this.#journal === null) await this.start()
  }

  async start(): Promise<void> {
    const usage: Usage = {}
    const keys: string[] = []
    const recovery = await recover({
      dataDirectory: this.#dataDirectory,
      nowMs: this.#nowMs,
      onSnapshot: (dump) => {
        Object.assign(usage, dump)
        return null
      },
      onUsage: (appId, cost) => add(usage, appId, cost),
      onKey: (batchId) => void keys.push(batchId),
      onDamage: ({ kind, path, offset }) => {
        throw new Error(`damage (${kind}) in ${path} at ${offset}`)
      },
    })
    this.#disk = new FailingDisk()
    this.#journal = await openJournal({
      directory: journalDirectory(this.#dataDirectory),
      maxBytes: 10_000_000,
      segmentBytes: 1500,
      keepHours: null,
      keysFrom: recovery.keysFrom,
      resumeAfter: recovery.resumeAfter,
      clock: () => this.#nowMs,
      timers: timersWithoutIntervals,
      disk: this.#disk,
    })
    await this.#check(usage, keys)
    this.#usage = usage
  }

  async stop(): Promise<void> {
    await this.#journal?.stop()
    this.#journal = null
  }

  async #check(usage: Usage, keys: readonly string[]): Promise<void> {
    const stored = await readNaively(journalDirectory(this.#dataDirectory))
    const ids = stored.map((each) => each.batch_id)
    const present = new Set(ids)
    assert.equal(present.size, ids.length, 'nothing is stored twice')
    for (const id of this.#durable) assert(present.has(id), 'what was durable is there')
    for (const id of this.#refused) assert(!present.has(id), 'what was refused is not')
    const expected: Usage = {}
    for (const each of stored) add(expected, each.app_id, Math.max(1, each.events.length))
    assert.deepEqual(usage, expected, 'usage is what the records cost')
    const young = stored.filter((each) => Date.parse(each.received_at) > this.#nowMs - 300_000)
    const wanted = young.map((each) => each.batch_id).filter((id) => id[14] === '5')
    assert.deepEqual(keys, wanted, 'keys are those of the last 300 s')
    // A record that a kill left complete may or may not have been durable; from here on it is.
    for (const id of ids) this.#durable.add(id)
  }

  async #write({ count, events, app, keyed }: Step & { kind: 'write' }): Promise<void> {
    const journal = this.#journal
    const settlements = Array.from({ length: count }, () => {
      const record = makeRecord({ events, appId: app, keyed, receivedAtMs: this.#nowMs })
      return new Promise<void>((resolve) => {
        journal?.publish(record, (ack: QueueAck) => {
          if (ack === 'durable') {
            this.#durable.add(record.batchId)
            add(this.#usage, app, Math.max(1, events))
          } else if (!this.#disk.failsTruncate) {
            // If truncating failed too, a kill now would leave the record in the file.
            this.#refused.add(record.batchId)
          }
          resolve()
        })
      })
    })
    await Promise.all(settlements)
  }

  async #snapshot(): Promise<void> {
    const journal = this.#journal
    if (journal === null) return
    await writeSnapshot(this.#dataDirectory, {
      writtenAtMs: this.#nowMs,
      position: journal.position(),
      keysFrom: journal.keysFrom(this.#nowMs),
      usage: { ...this.#usage },
    })
  }

  /** The process is killed during a write: some of its bytes are in the file, and no record was acknowledged. */
  async #kill(count: number, at: number): Promise<void> {
    // So that the disk knows which file to close.
    if (this.#disk.appends === 0) await this.#write({ kind: 'write', count: 1, events: 1, app: 'a', keyed: true })
    this.#disk.diesAt = at
    this.#disk.failsTruncate = true
    for (let index = 0; index < count; index += 1) {
      this.#journal?.publish(makeRecord({ events: 2, keyed: true, receivedAtMs: this.#nowMs }), () => {})
    }
    // The journal writes after this turn of the event loop; the kill happens during that write.
    await new Promise((resolve) => setImmediate(resolve))
    await this.#disk.closeAll()
    this.#journal = null
  }
}

function add(usage: Usage, appId: string, cost: number): void {
  usage[appId] = (usage[appId] ?? 0) + cost
}

it('loses nothing durable, stores nothing twice, and counts exactly, whatever happens', async () => {
  const life = fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 25 }), async (steps) =>
    live(join(await makeFolder(), 'data'), steps),
  )
  // A failure prints its seed, and the shortest history that fails.
  await expect(fc.assert(life, { numRuns: 120, interruptAfterTimeLimit: 15_000 })).resolves.toBeUndefined()
})

async function live(dataDirectory: string, steps: readonly Step[]): Promise<void> {
  const life = new Life(dataDirectory)
  await life.start()
  for (const each of steps) await life.take(each)
  await life.stop()
  await life.start()
  await life.stop()
}

it('leaves a torn line, which the next start cuts, where a short write cannot be truncated', async () => {
  const steps: readonly Step[] = [
    { kind: 'fail', how: 'short' },
    { kind: 'stuck', isStuck: true },
    { kind: 'write', count: 1, events: 0, app: 'a', keyed: false },
    { kind: 'stuck', isStuck: false },
  ]
  await expect(live(join(await makeFolder(), 'data'), steps)).resolves.toBeUndefined()
})
