// The invariants. The judge sees every message that the stream stores, every answer of a node and, once every fault has
// ended and nothing is in flight, the usage by the limits. The first violation ends the run.

import type { App } from '../../src/apps/app.ts'
import { cycleAt, windowStartMs } from '../../src/apps/plans.ts'
import { parseRecordHead, type RecordHead } from '../../src/contract/record/record-head.ts'
import { recordsOf } from '../../src/contract/record/record-lines.ts'
import { DAY_MS, MINUTE_MS } from '../../src/lib/spans.ts'
import { EVENTS_STREAM } from '../../src/nats/store-names.ts'
import { judgeAlerts } from './alerts-judge.ts'
import type { Cluster } from './cluster.ts'
import type { History, Step } from './history.ts'
import type { OnDisk } from './journal/machine.ts'
import type { Answer, SimulatedNode } from './node.ts'
import { AWAITED, OF_THE_PROCESS, type Oracle, type Violation } from './oracle.ts'
import { type Attempt, Room } from './room.ts'

/** A batch in the stream. */
interface Stored {
  readonly appId: string
  readonly events: number
  /** Unix ms: it counts in the windows that contain this time. */
  readonly takenAtMs: number
  /** By the world's clock. */
  readonly storedAtMs: number
  isLost: boolean
}

/** A client's request. */
export interface Asked extends Attempt {
  readonly key: string | null
}

type WindowKind = 'minute' | 'day' | 'month'

const WINDOW_OF_ERROR: Readonly<Record<string, WindowKind>> = {
  rate_limit_exceeded: 'minute',
  daily_limit_exceeded: 'day',
  monthly_limit_exceeded: 'month',
}

const KEY_WINDOW_MS = 300_000
/** Of a journal: the shortest time for which a segment stays. */
const KEPT_MS = 600_000
const ID_LENGTH = 36
/** What was given back, or left in a bucket, is there for others by then. */
const ROOM_MS = 5000
/** A request under way, or on a node that reads changes late, may be checked by a record replaced this long ago. */
const RECORD_AGE_MS = 4000
/** By then its node knows whether a batch is in doubt. */
const DOUBT_MS = 2500
/** A wait for a key that other requests hold, and then for Redis and NATS. */
const MAX_ANSWER_MS = 24_000
/** A refusal that took so long was waited for. */
const WAIT_MS = 1000
/** Goodput is measured from this time after NATS became slow, and only over at least this many batches. */
const GOODPUT_FROM_MS = 3000
const GOODPUT_MIN_STORED = 40
const MIN_GOODPUT = 0.9
/** Of a history with more apps, a sample. */
const MAX_APPS_COMPARED = 100

interface Total {
  accepted: number
  /** The part accepted since this fault period began. */
  sinceFault: number
  periodSinceMs: number
}

export class Judge {
  violation: Violation | null = null
  accepted = 0
  replayed = 0
  refused = 0
  readonly #cluster: Cluster
  readonly #maxAnswerMs: number
  readonly #maxWaits: number
  #waits = 0
  readonly #stored = new Map<string, Stored>()
  readonly #acceptedAtMs = new Map<string, number>()
  /** Batches that the disk of a node took. */
  readonly #spooled = new Map<string, Stored>()
  readonly #lastStoredOfKey = new Map<string, number>()
  /** Stored events by window. */
  readonly #storedEvents = new Map<string, number>()
  /** Events by window that were stored and lost: they may stay charged. */
  readonly #lostEvents = new Map<string, number>()
  readonly #room = new Room()
  /** Accepted events by window. */
  readonly #totals = new Map<string, Total>()
  /** When each batch was first accepted, in order. */
  readonly #acceptances: number[] = []

  constructor(
    cluster: Cluster,
    {
      maxAnswerMs = MAX_ANSWER_MS,
      maxWaits = Number.POSITIVE_INFINITY,
    }: Pick<History, 'maxAnswerMs' | 'maxWaits'> = {},
  ) {
    this.#cluster = cluster
    this.#maxAnswerMs = maxAnswerMs
    this.#maxWaits = maxWaits
    cluster.onSpooled = (lines) => this.#onSpooled(lines)
    cluster.nats.onStored = (stream, message) => {
      if (stream === EVENTS_STREAM) this.#onStored(message.data)
    }
    if (cluster.machine !== null) {
      cluster.machine.onStored = (lines) => this.#onStored(lines)
      cluster.machine.onStarted = (found) => this.#onStarted(found)
      cluster.machine.onCut = (lines) => this.#onLost([lines])
    }
    cluster.losses.onLost = (stream, messages) => {
      if (stream === EVENTS_STREAM) this.#onLost(messages.map(({ data }) => data))
    }
  }

  #report(oracle: Oracle, detail: string): void {
    if (AWAITED[oracle] !== undefined) return
    // No journal survives a disk that lies; but the process on it has to.
    if (this.#cluster.machine?.isLossy === true && !OF_THE_PROCESS.includes(oracle)) return
    this.violation ??= { oracle, atMs: this.#nowMs, detail }
  }

  get #nowMs(): number {
    return this.#cluster.world.nowMs
  }

  #onSpooled(lines: Buffer): void {
    for (const record of recordsOf(lines)) {
      const head = parseRecordHead(record, 0, record.length)
      if (head === null || this.#spooled.has(head.batchId)) continue
      const { batchId, appId, events, receivedAtMs: takenAtMs } = head
      this.#spooled.set(batchId, { appId, events, takenAtMs, storedAtMs: this.#nowMs, isLost: false })
    }
  }

  /** What a spool took and was answered 202 is in the stream, and no spool holds anything any more. */
  judgeSpools(): void {
    for (const [at, { isDead, parts }] of this.#cluster.nodes.entries()) {
      const left = isDead ? 0 : (parts?.spooled() ?? 0)
      if (left > 0) this.reportNotRecovered(`${left} batches are in the spool of node ${at}`)
    }
    for (const batchId of this.#spooled.keys()) {
      const stored = this.#stored.get(batchId)
      if (this.#acceptedAtMs.has(batchId) && (stored === undefined || stored.isLost))
        this.#report(
          'a 202 is not stored',
          `batch ${batchId}, which a spool took, is ${stored === undefined ? 'not in the stream' : 'lost'}`,
        )
    }
  }

  #onStored(data: Buffer): void {
    for (const record of recordsOf(data)) {
      const head = parseRecordHead(record, 0, record.length)
      if (head === null) {
        this.#report('a 202 is not stored', `the stream holds something that is not a record: ${record.toString()}`)
        continue
      }
      const { batchId, appId, events, receivedAtMs, keyed } = head
      const before = this.#stored.get(batchId)
      if (before !== undefined) {
        const isSame = this.#spooled.has(batchId) && Math.abs(receivedAtMs - before.takenAtMs) <= KEY_WINDOW_MS
        if (!before.isLost && (isSame || (keyed && this.#isRemembered(batchId, before, receivedAtMs))))
          this.#report('a key is stored twice', `${batchId} of ${appId}`)
        // Its key had been forgotten, or its batch lost: this is another batch.
        this.#stored.set(`${batchId} until ${this.#nowMs}`, before)
        this.#acceptedAtMs.delete(batchId)
      }
      this.#lastStoredOfKey.set(batchId, this.#nowMs)
      const stored = { appId, events, takenAtMs: receivedAtMs, storedAtMs: this.#nowMs, isLost: false }
      this.#stored.set(batchId, stored)
      this.#checkStored(stored)
    }
  }

  /** Whether the key of `before` must still be known. A journal has only the time at which its record was received. */
  #isRemembered(batchId: string, before: Stored, receivedAtMs: number): boolean {
    if (this.#cluster.machine !== null) return receivedAtMs - before.takenAtMs <= KEY_WINDOW_MS
    const storedMs = this.#lastStoredOfKey.get(batchId) ?? -KEY_WINDOW_MS
    return this.#nowMs - Math.max(storedMs, this.#acceptedAtMs.get(batchId) ?? 0) <= KEY_WINDOW_MS
  }

  /** A machine has started again: what its disk holds is stored, and what was answered 202 is on it, whole and once. */
  #onStarted(found: readonly OnDisk[]): void {
    const last = new Map<string, RecordHead>()
    for (const { head, text } of found) {
      const { batchId, keyed, receivedAtMs } = head
      const before = last.get(batchId)
      if (before !== undefined && !(keyed && Math.abs(receivedAtMs - before.receivedAtMs) > KEY_WINDOW_MS))
        this.#report('a key is stored twice', `${batchId} is on the disk twice`)
      last.set(batchId, head)
      if (!this.#stored.has(batchId)) this.#onStored(text)
    }
    for (const [batchId, stored] of this.#stored) {
      const isOld = this.#cluster.world.wallMs - stored.takenAtMs >= KEPT_MS
      if (last.has(batchId.slice(0, ID_LENGTH)) || stored.isLost || isOld) continue
      if (this.#acceptedAtMs.has(batchId)) this.#report('a 202 is not stored', `${batchId} is not on the disk`)
      this.#lose(batchId, stored)
    }
  }

  /** Whatever was answered: what is in doubt has its place in the limits too. */
  #checkStored(stored: Stored): void {
    const { faultPeriod, versions } = this.#cluster
    const app = versions[numberOf(stored.appId)] ?? []
    for (const { kind, name } of this.#windowsOf(stored)) {
      const sum = (this.#storedEvents.get(name) ?? 0) + stored.events
      this.#storedEvents.set(name, sum)
      const limit = this.#limits(app, kind, Number.POSITIVE_INFINITY).most
      if (sum <= limit || faultPeriod.isActive(this.#nowMs)) continue
      this.#report('a limit was exceeded', `${name}: ${sum} stored of ${limit}`)
    }
  }

  /** These records were lost. */
  #onLost(lost: readonly Buffer[]): void {
    for (const data of lost) {
      for (const record of recordsOf(data)) {
        const head = parseRecordHead(record, 0, record.length)
        const stored = head === null ? undefined : this.#stored.get(head.batchId)
        if (stored !== undefined && head !== null && !stored.isLost) this.#lose(head.batchId, stored)
      }
    }
  }

  #lose(batchId: string, stored: Stored): void {
    stored.isLost = true
    for (const { name } of this.#windowsOf(stored)) {
      this.#storedEvents.set(name, (this.#storedEvents.get(name) ?? 0) - stored.events)
      this.#lostEvents.set(name, (this.#lostEvents.get(name) ?? 0) + stored.events)
    }
    if (this.#acceptedAtMs.has(batchId)) this.#count(stored, -stored.events)
  }

  asked(asked: Asked): void {
    this.#room.asked(asked)
  }

  answered(node: SimulatedNode, asked: Asked, answer: Answer): void {
    const imbalance = node.imbalance()
    if (imbalance !== null) this.#report('requests are lost', imbalance)
    if (node.faults.length > 0) this.#report('a stage threw', String((node.faults[0] as Error).stack ?? node.faults[0]))
    const tookMs = this.#nowMs - asked.sentAtMs
    if (tookMs > this.#maxAnswerMs)
      this.#report('an answer came late', `${answer.status} after ${tookMs.toFixed(0)} ms`)
    if (answer.status === 503 && tookMs >= WAIT_MS && ++this.#waits > this.#maxWaits)
      this.#report('an answer came late', `${this.#waits} requests have waited, and were refused`)
    if (answer.status === 202) this.#wasAccepted(asked, answer)
    else this.#wasRefused(asked, answer)
    if (answer.status === 429) this.#checkRoom(node, asked, answer)
    if (answer.status === 202 || answer.status === 429) this.#room.settled(asked)
  }

  #wasAccepted(asked: Asked, { batchId, body }: Answer): void {
    if (batchId === null) return this.#report('a 202 is not stored', 'a 202 without a batch id')
    const isFirst = !this.#acceptedAtMs.has(batchId)
    const stored = this.#stored.get(batchId) ?? this.#spooled.get(batchId)
    if (body.events === 0) return
    if (stored === undefined) {
      return this.#report('a 202 is not stored', `batch ${batchId} of app${asked.app}, ${body.events} events`)
    }
    // Without Redis and NATS nobody can know that another node has the key: what is sent later knows.
    const mayBeTwice = this.#spooled.has(batchId) && this.#cluster.faultPeriod.isActive(this.#nowMs)
    if (!isFirst && body.deduplicated !== true && !stored.isLost && !mayBeTwice) {
      return this.#report('a batch was accepted twice', `batch ${batchId} of app${asked.app}`)
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
    if (asked.key === null || status !== 429 || this.#cluster.faultPeriod.isActive(this.#nowMs)) return
    const stored = this.#stored.get(asked.key)
    if (stored === undefined || stored.isLost) return
    const name = `batch ${batchId ?? asked.key} of app${asked.app}: ${body.error}`
    // Only a request sent after the acceptance and answered within the window has to be a replay.
    const isReplayOf = (atMs: number): boolean => asked.sentAtMs > atMs && this.#nowMs - atMs <= KEY_WINDOW_MS
    const acceptedAtMs = this.#acceptedAtMs.get(asked.key)
    if (acceptedAtMs !== undefined && isReplayOf(acceptedAtMs)) this.#report('a replay was refused', name)
    else if (isReplayOf(stored.storedAtMs) && !this.#isOfDeadNode(stored))
      this.#report('a stored key was refused', name)
  }

  /** Its node may have died before it could write that the batch is in doubt: a retry is then charged anew. */
  #isOfDeadNode({ storedAtMs }: Stored): boolean {
    return this.#cluster.kills.some((atMs) => Math.abs(atMs - storedAtMs) <= DOUBT_MS)
  }

  /** A batch must not be refused for a limit in which it had room for ROOM_MS. */
  #checkRoom(node: SimulatedNode, asked: Asked, { body }: Answer): void {
    const { faultPeriod, redis, nodes, versions } = this.#cluster
    const kind = WINDOW_OF_ERROR[body.error ?? '']
    // Not judged yet: what is on its way to the disk, or from it to the audit, may count twice for a moment.
    if (this.#cluster.spoolDisks.length > 0) return
    // While Redis is away each node has a share of what is left.
    if (kind === undefined || faultPeriod.isActive(this.#nowMs) || node.parts?.redisOutages() !== 0) return
    if (kind === 'month' && hasMovedAnchor(versions[asked.app])) return
    const takenAtMs = redis.nowMs
    const { appId } = this.#newest(`app${asked.app}`)
    const isThis = (window: { kind: string }): boolean => window.kind === kind
    const [now, before] = [takenAtMs, takenAtMs - ROOM_MS].map((atMs) =>
      this.#windowsOf({ appId, takenAtMs: atMs }).find(isThis),
    )
    if (now === undefined || now.name !== before?.name) return
    const limit = this.#limits(versions[asked.app], kind, RECORD_AGE_MS + ROOM_MS).least
    const stored = (this.#storedEvents.get(now.name) ?? 0) + (this.#lostEvents.get(now.name) ?? 0)
    if (this.#room.isFor(asked, { limit, stored }, nodes.length)) {
      const detail = `${asked.events} events, ${body.error}, with ${stored} of ${limit} stored in ${now.name}`
      this.#report('a batch was refused although there was room', detail)
    }
  }

  #windowsOf({ appId, takenAtMs }: Pick<Stored, 'appId' | 'takenAtMs'>): { kind: WindowKind; name: string }[] {
    const cycle = cycleAt(this.#newest(appId).billingAnchorMs, takenAtMs)
    return [
      { kind: 'minute', name: `${appId} minute ${windowStartMs(takenAtMs, MINUTE_MS)}` },
      { kind: 'day', name: `${appId} day ${windowStartMs(takenAtMs, DAY_MS)}` },
      { kind: 'month', name: `${appId} month ${cycle.startMs}` },
    ]
  }

  #newest(appId: string): App {
    const found = this.#cluster.versions[numberOf(appId)]
    if (found === undefined) throw new Error(`${appId} is not an app of this history`)
    return found[found.length - 1].app
  }

  #count(stored: Stored, events: number): void {
    const { faultPeriod } = this.#cluster
    const isFaulty = faultPeriod.isActive(this.#nowMs)
    for (const { name } of this.#windowsOf(stored)) {
      let total = this.#totals.get(name)
      if (total === undefined) this.#totals.set(name, (total = { accepted: 0, sinceFault: 0, periodSinceMs: -1 }))
      total.accepted += events
      if (!isFaulty) continue
      if (total.periodSinceMs !== faultPeriod.sinceMs) {
        total.periodSinceMs = faultPeriod.sinceMs
        total.sinceFault = 0
      }
      total.sinceFault += events
    }
  }

  /** While Redis answers, no window exceeds its limit; in a fault period, each fault allows one limit more. */
  #checkLimits({ app: number }: Asked, stored: Stored, isLate: boolean): void {
    const { faultPeriod, versions } = this.#cluster
    const isFaulty = faultPeriod.isActive(this.#nowMs)
    for (const { kind, name } of this.#windowsOf(stored)) {
      // Where an earlier request under this key took it, any record may have applied.
      const limit = this.#limits(versions[number], kind, isLate ? Number.POSITIVE_INFINITY : RECORD_AGE_MS).most
      const { accepted, sinceFault } = this.#totals.get(name) as Total
      const [found, allowed] = isFaulty ? [sinceFault, limit * faultPeriod.faults] : [accepted, limit]
      if (found <= allowed) continue
      const since = isFaulty
        ? `, in ${faultPeriod.faults} faults of Redis since ${faultPeriod.sinceMs.toFixed(0)} ms`
        : ''
      this.#report('a limit was exceeded', `${name}: ${found} accepted of ${limit}${since}`)
    }
  }

  /** The highest and the lowest limit of the records that may have applied, those replaced less than `ageMs` ago. */
  #limits(versions: readonly { atMs: number; app: App }[], kind: WindowKind, ageMs: number) {
    let [most, least] = [0, Number.POSITIVE_INFINITY]
    for (const [at, { app }] of versions.entries()) {
      const endedMs = versions[at + 1]?.atMs ?? Number.POSITIVE_INFINITY
      if (endedMs < this.#nowMs - ageMs) continue
      const { eventsPerMinute, eventsPerDay, eventsPerMonth } = app
      const limits = { minute: eventsPerMinute, day: eventsPerDay ?? Number.POSITIVE_INFINITY, month: eventsPerMonth }
      most = Math.max(most, limits[kind])
      least = Math.min(least, limits[kind])
    }
    return { most, least }
  }

  /** While NATS was slow, at least MIN_GOODPUT of what it stored was answered 202. */
  judgeGoodput(): void {
    for (const { fromMs, untilMs, isSpoilt } of this.#cluster.slowNats) {
      if (isSpoilt) continue
      const isWithin = (atMs: number): boolean => atMs >= fromMs + GOODPUT_FROM_MS && atMs <= untilMs
      const stored = [...this.#stored.values()].filter(({ storedAtMs }) => isWithin(storedAtMs)).length
      const accepted = this.#acceptances.filter(isWithin).length
      if (stored < GOODPUT_MIN_STORED || accepted >= MIN_GOODPUT * stored) continue
      this.#report('less was accepted than NATS stored', `${accepted} batches accepted while ${stored} were stored`)
    }
  }

  /** After the last fault no node may declare Redis away. `before`: how often each node had done so until then. */
  judgeOutages(nodes: readonly SimulatedNode[], before: readonly number[]): void {
    for (const [at, count] of before.entries()) {
      const since = (nodes[at].parts?.redisOutages() ?? 0) - count
      if (since > 0)
        this.#report('Redis was declared away while it answered', `${since} times by node ${at}, after the last fault`)
    }
  }

  /** Each loss in NATS is told by a node, and none that did not happen. */
  judgeLosses(): void {
    const found = this.#cluster.losses.judge(this.#cluster.nodes)
    if (found !== null)
      this.#report(found.isFalse ? 'a loss is reported that did not happen' : 'a loss is not reported', found.detail)
  }

  /** Each alert is raised once, and none for nothing. */
  judgeAlerts(steps: readonly Step[]): void {
    const storedOf = new Map<string, Stored[]>()
    for (const stored of this.#stored.values()) {
      // What was lost may have been seen before.
      if (stored.isLost) return
      storedOf.set(stored.appId, [...(storedOf.get(stored.appId) ?? []), stored])
    }
    const found = judgeAlerts(this.#cluster, steps, storedOf)
    if (found !== null)
      this.#report(found.isLost ? 'an alert was lost' : 'an alert was raised twice or for nothing', found.detail)
  }

  /** Each damage to a journal is named, and none that did not happen. `node` runs on its disk. */
  async judgeDamage(node: SimulatedNode): Promise<void> {
    const found = (await this.#cluster.machine?.judgeDamage(node.host)) ?? null
    if (found !== null)
      this.#report(found.isFalse ? 'damage is reported that did not happen' : 'damage is not reported', found.detail)
  }

  reportNotRecovered(detail: string): void {
    this.#report('the service does not recover', detail)
  }

  /** With nothing in flight, the usage that the new node `node` reports has to equal what is stored. */
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
      const usages = await node.parts?.admission.usages([app])
      if (usages === undefined || usages === 'away') return this.reportNotRecovered('a new node is not ready')
      const [usage] = usages
      const monthMs = cycleAt(app.billingAnchorMs, usage.atMs).startMs
      const dayMs = windowStartMs(usage.atMs, DAY_MS)
      const stored = storedOf.get(app.appId) ?? []
      this.#compare(
        `${app.appId} day`,
        usage.day.used,
        stored.filter(({ takenAtMs }) => takenAtMs >= dayMs),
      )
      const byDay = await node.parts?.admission.days([app])
      if (byDay === undefined || byDay === 'away') return this.reportNotRecovered('a new node is not ready')
      const seen = stored.map(({ takenAtMs }) => Math.floor(takenAtMs / DAY_MS))
      for (const day of new Set([...byDay[0].keys(), ...seen])) {
        const ofDay = stored.filter((_, index) => seen[index] === day)
        this.#compare(`${app.appId} day ${day}`, byDay[0].get(day) ?? 0, ofDay)
      }
      if (hasMovedAnchor(versions[at])) continue
      this.#compare(
        `${app.appId} month`,
        usage.month.used,
        stored.filter(({ takenAtMs }) => takenAtMs >= monthMs),
      )
    }
  }

  /** Messages that NATS lost may have been counted before. */
  #compare(name: string, used: number, batches: readonly Stored[]): void {
    const sum = (isLost: boolean): number => {
      return batches.reduce((events, batch) => events + (batch.isLost === isLost ? batch.events : 0), 0)
    }
    const [stored, lost] = [sum(false), sum(true)]
    if (used >= stored && used <= stored + lost) return
    const more = lost > 0 ? `, and ${lost} were lost` : ''
    this.#report('counters differ from what is stored', `${name}: ${used} used, ${stored} stored${more}`)
  }
}

/** Its new cycle counts days that the old one has counted too. */
function hasMovedAnchor(versions: readonly { readonly app: App }[]): boolean {
  return versions.some(({ app }) => app.billingAnchorMs !== versions[0].app.billingAnchorMs)
}

/** Apps are named by their place in the history (anApp). */
function numberOf(appId: string): number {
  return Number(appId.slice('app'.length))
}
