// What must hold whatever happens. The judge sees every message that the stream stores, every answer that a node gives
// and, once every fault is over and nothing is in flight, what the limits say is used. The first thing that does not hold ends the run.

import type { App } from '../../src/apps/app.ts'
import { cycleAt, DAY_MS, MINUTE_MS, windowStartMs } from '../../src/apps/plans.ts'
import { parseRecordHead } from '../../src/queue/record/record-head.ts'
import { recordsOf } from '../../src/queue/stream/read/stream-records.ts'
import { STREAM_NAME } from '../../src/queue/stream/stream.ts'
import type { Cluster } from './cluster.ts'
import type { Answer, SimulatedNode } from './node.ts'
import type { StoredMessage } from './stream.ts'

export type Oracle =
  | 'a limit was exceeded'
  | 'a 202 is not stored'
  | 'a batch was accepted twice'
  | 'a key is stored twice'
  | 'a replay was refused'
  | 'counters are not what is stored'
  | 'less was accepted than NATS took'
  | 'Redis was taken for away while it answered'
  | 'it does not come back'
  | 'requests are lost'
  | 'a stage threw'

export interface Violation {
  readonly oracle: Oracle
  readonly atMs: number
  readonly detail: string
}

/** A batch in the stream. */
interface Stored {
  readonly appId: string
  readonly events: number
  /** Unix ms: the windows that it counts in hold this. */
  readonly takenAtMs: number
  /** Ms of the world. */
  readonly storedAtMs: number
  isLost: boolean
}

/** What a client asked, as the judge needs it. */
export interface Asked {
  readonly app: number
  readonly key: string | null
  readonly sentAtMs: number
}

const KEY_WINDOW_MS = 300_000
/** A request may be judged by a record that was in force so long ago: it was under way, or its node had not heard. */
const RECORD_AGE_MS = 4000
/** The stretch after which a slow NATS has shown what it takes, and how much it has to be shown by. */
const SLOW_SETTLES_MS = 3000
const SLOW_LEAST_STORED = 40
const GOODPUT = 0.9
/** Of many apps, so many are looked at. */
const MAX_APPS_COMPARED = 100

interface Total {
  accepted: number
  /** Of it, what was accepted since this trouble began. */
  sinceTrouble: number
  troubleMs: number
}

export class Judge {
  violation: Violation | null = null
  accepted = 0
  replayed = 0
  refused = 0
  readonly #cluster: Cluster
  readonly #stored = new Map<string, Stored>()
  readonly #acceptedAtMs = new Map<string, number>()
  readonly #lastStoredOfKey = new Map<string, number>()
  /** Accepted events by window. */
  readonly #totals = new Map<string, Total>()
  /** When each batch was first accepted, in order. */
  readonly #acceptances: number[] = []

  constructor(cluster: Cluster) {
    this.#cluster = cluster
    cluster.nats.onStored = (stream, message) => {
      if (stream === STREAM_NAME) this.#onStored(message)
    }
  }

  #found(oracle: Oracle, detail: string): void {
    this.violation ??= { oracle, atMs: this.#nowMs, detail }
  }

  get #nowMs(): number {
    return this.#cluster.world.nowMs
  }

  #onStored(message: StoredMessage): void {
    for (const record of recordsOf(message.data)) {
      const head = parseRecordHead(record, 0, record.length)
      if (head === null) {
        this.#found('a 202 is not stored', `the stream holds what is no record: ${record.toString()}`)
        continue
      }
      const { batchId, appId, events, receivedAtMs, keyed } = head
      const before = this.#stored.get(batchId)
      if (keyed && before !== undefined && !before.isLost) {
        const lastMs = Math.max(
          this.#lastStoredOfKey.get(batchId) ?? -KEY_WINDOW_MS,
          this.#acceptedAtMs.get(batchId) ?? 0,
        )
        if (this.#nowMs - lastMs <= KEY_WINDOW_MS) this.#found('a key is stored twice', `${batchId} of ${appId}`)
      }
      this.#lastStoredOfKey.set(batchId, this.#nowMs)
      this.#stored.set(batchId, { appId, events, takenAtMs: receivedAtMs, storedAtMs: this.#nowMs, isLost: false })
    }
  }

  /** The server's machine has lost these. */
  tailLost(messages: readonly StoredMessage[]): void {
    for (const { data } of messages) {
      for (const record of recordsOf(data)) {
        const head = parseRecordHead(record, 0, record.length)
        const stored = head === null ? undefined : this.#stored.get(head.batchId)
        if (stored === undefined || head === null || stored.isLost) continue
        stored.isLost = true
        if (this.#acceptedAtMs.has(head.batchId)) this.#count(stored, -stored.events)
      }
    }
  }

  /** A node has answered. */
  answered(node: SimulatedNode, asked: Asked, answer: Answer): void {
    const imbalance = node.imbalance()
    if (imbalance !== null) this.#found('requests are lost', imbalance)
    if (node.faults.length > 0) this.#found('a stage threw', String((node.faults[0] as Error).stack ?? node.faults[0]))
    if (answer.status === 202) this.#wasAccepted(asked, answer)
    else this.#wasRefused(asked, answer)
  }

  #wasAccepted(asked: Asked, { batchId, body }: Answer): void {
    if (batchId === null) return this.#found('a 202 is not stored', 'a 202 without a batch id')
    const isFirst = !this.#acceptedAtMs.has(batchId)
    const stored = this.#stored.get(batchId)
    if (body.events === 0) return
    if (stored === undefined) {
      return this.#found('a 202 is not stored', `batch ${batchId} of app${asked.app}, ${body.events} events`)
    }
    if (!isFirst && body.deduplicated !== true && !stored.isLost) {
      return this.#found('a batch was accepted twice', `batch ${batchId} of app${asked.app}`)
    }
    if (!isFirst) {
      this.replayed++
      return
    }
    this.accepted++
    this.#acceptedAtMs.set(batchId, this.#nowMs)
    this.#acceptances.push(this.#nowMs)
    if (stored.isLost) return
    this.#count(stored, stored.events)
    this.#checkLimits(asked, stored, body.deduplicated === true)
  }

  #wasRefused(asked: Asked, { status, body, batchId }: Answer): void {
    this.refused++
    if (asked.key === null || status !== 429 || this.#cluster.trouble.isOn(this.#nowMs)) return
    const acceptedAtMs = this.#acceptedAtMs.get(asked.key)
    if (acceptedAtMs === undefined || this.#stored.get(asked.key)?.isLost === true) return
    // It was sent after its acceptance, and answered within the window.
    if (asked.sentAtMs <= acceptedAtMs || this.#nowMs - acceptedAtMs > KEY_WINDOW_MS) return
    this.#found('a replay was refused', `batch ${batchId ?? asked.key} of app${asked.app}: ${body.error}`)
  }

  #windowsOf({ appId, takenAtMs }: Stored): { kind: 'minute' | 'day' | 'month'; name: string }[] {
    const cycle = cycleAt(this.#newest(appId).billingAnchorMs, takenAtMs)
    return [
      { kind: 'minute', name: `${appId} minute ${windowStartMs(takenAtMs, MINUTE_MS)}` },
      { kind: 'day', name: `${appId} day ${windowStartMs(takenAtMs, DAY_MS)}` },
      { kind: 'month', name: `${appId} month ${cycle.startMs}` },
    ]
  }

  #newest(appId: string): App {
    const found = this.#cluster.versions.find((versions) => versions[0].app.appId === appId)
    if (found === undefined) throw new Error(`${appId} is no app of this history`)
    return found[found.length - 1].app
  }

  #count(stored: Stored, events: number): void {
    const { trouble } = this.#cluster
    const isTrouble = trouble.isOn(this.#nowMs)
    for (const { name } of this.#windowsOf(stored)) {
      let total = this.#totals.get(name)
      if (total === undefined) this.#totals.set(name, (total = { accepted: 0, sinceTrouble: 0, troubleMs: -1 }))
      total.accepted += events
      if (!isTrouble) continue
      if (total.troubleMs !== trouble.sinceMs) {
        total.troubleMs = trouble.sinceMs
        total.sinceTrouble = 0
      }
      total.sinceTrouble += events
    }
  }

  /** While Redis answers, no window holds more than its limit; otherwise, no more than a limit anew for each fault. */
  #checkLimits({ app: number }: Asked, stored: Stored, isLate: boolean): void {
    const { trouble, versions } = this.#cluster
    const isTrouble = trouble.isOn(this.#nowMs)
    for (const { kind, name } of this.#windowsOf(stored)) {
      const limit = this.#mostAllowed(versions[number], kind, isLate)
      const { accepted, sinceTrouble } = this.#totals.get(name) as Total
      const [is, most] = isTrouble ? [sinceTrouble, limit * trouble.onsets] : [accepted, limit]
      if (is <= most) continue
      const since = isTrouble ? `, in ${trouble.onsets} faults of Redis since ${trouble.sinceMs.toFixed(0)} ms` : ''
      this.#found('a limit was exceeded', `${name}: ${is} accepted of ${limit}${since}`)
    }
  }

  /** By the records that may have judged it. `isLate`: it was taken when an earlier request under its key was sent. */
  #mostAllowed(
    versions: readonly { atMs: number; app: App }[],
    kind: 'minute' | 'day' | 'month',
    isLate: boolean,
  ): number {
    let most = 0
    for (const [at, { app }] of versions.entries()) {
      const endedMs = versions[at + 1]?.atMs ?? Number.POSITIVE_INFINITY
      if (!isLate && endedMs < this.#nowMs - RECORD_AGE_MS) continue
      const { eventsPerMinute, eventsPerDay, eventsPerMonth } = app
      const limits = { minute: eventsPerMinute, day: eventsPerDay ?? Number.POSITIVE_INFINITY, month: eventsPerMonth }
      most = Math.max(most, limits[kind])
    }
    return most
  }

  /** NATS was slow: nearly all that it took was answered 202. */
  judgeGoodput(): void {
    for (const { fromMs, untilMs, isSpoilt } of this.#cluster.slowNats) {
      if (isSpoilt) continue
      const isWithin = (atMs: number): boolean => atMs >= fromMs + SLOW_SETTLES_MS && atMs <= untilMs
      const stored = [...this.#stored.values()].filter(({ storedAtMs }) => isWithin(storedAtMs)).length
      const accepted = this.#acceptances.filter(isWithin).length
      if (stored < SLOW_LEAST_STORED || accepted >= GOODPUT * stored) continue
      this.#found('less was accepted than NATS took', `${accepted} batches accepted while ${stored} were stored`)
    }
  }

  /** After the last fault nothing is amiss with Redis: `before` is how often each node had taken it for away when that began. */
  judgeOutages(nodes: readonly SimulatedNode[], before: readonly number[]): void {
    for (const [at, count] of before.entries()) {
      const since = (nodes[at].parts?.redisOutages() ?? 0) - count
      if (since > 0)
        this.#found('Redis was taken for away while it answered', `${since} times by node ${at}, after the last fault`)
    }
  }

  notBack(detail: string): void {
    this.#found('it does not come back', detail)
  }

  /** At rest: what `node`, which has just started, says is used, is what is stored. */
  async judgeCounters(node: SimulatedNode): Promise<void> {
    const storedOf = new Map<string, Stored[]>()
    for (const stored of this.#stored.values()) {
      const list = storedOf.get(stored.appId)
      if (list === undefined) storedOf.set(stored.appId, [stored])
      else list.push(stored)
    }
    const { versions } = this.#cluster
    for (let at = 0; at < versions.length; at += Math.ceil(versions.length / MAX_APPS_COMPARED)) {
      const { app } = versions[at].at(-1) as { app: App }
      const standing = await node.parts?.admission.usage(app)
      if (standing === undefined) return this.notBack('a new node is not ready')
      const monthMs = cycleAt(app.billingAnchorMs, standing.atMs).startMs
      const dayMs = windowStartMs(standing.atMs, DAY_MS)
      const stored = storedOf.get(app.appId) ?? []
      this.#compare(
        `${app.appId} day`,
        standing.day.used,
        stored.filter(({ takenAtMs }) => takenAtMs >= dayMs),
      )
      this.#compare(
        `${app.appId} month`,
        standing.month.used,
        stored.filter(({ takenAtMs }) => takenAtMs >= monthMs),
      )
    }
  }

  /** What the server has lost may have been counted before. */
  #compare(name: string, used: number, batches: readonly Stored[]): void {
    const sum = (isLost: boolean): number => {
      return batches.reduce((events, batch) => events + (batch.isLost === isLost ? batch.events : 0), 0)
    }
    const [stored, lost] = [sum(false), sum(true)]
    if (used >= stored && used <= stored + lost) return
    const more = lost > 0 ? `, and ${lost} were lost` : ''
    this.#found('counters are not what is stored', `${name}: ${used} used, ${stored} stored${more}`)
  }
}
