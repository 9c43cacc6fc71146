// What this node has in its spool, as Redis counts it: by app, in a field of the spool's own. It comes off when the audit has read
// the message and closed its minute, so that at every moment an event counts at least once.

import { readFileSync } from 'node:fs'
import type { Charge } from '../../contract/charge.ts'
import { partitionOf } from '../../contract/partition.ts'
import { MINUTE_MS, MINUTES_A_DAY } from '../../lib/spans.ts'
import type { Timer } from '../../lib/timers.ts'
import { integer, listOf, textOrNull } from '../../redis/reply.ts'
import { redisScript, runScript } from '../../redis/script.ts'
import type { SharedContext } from './context.ts'
import { countsKey, fenceIn, fenceKey, readKey } from './take.ts'

const SPOOLED = redisScript(readFileSync(new URL('./spooled.lua', import.meta.url), 'utf8'))

const WRITE_MS = 100
/** A field that is not written again for two minutes is a dead node's, and counts no more (take.lua). */
const REFRESH_MS = 30_000
const LOOK_MS = 1000
/** Per call, so that it holds Redis up for about a ms. */
const APPS_PER_CALL = 100
const READ = /^(\d+) (\d+) (\d+)$/

/** Of one app. */
interface Sums {
  readonly partition: number
  /** The newest minute with events, and these. */
  minute: number
  minuteEvents: number
  /** By the cycle's first minute. */
  readonly cycles: Map<number, number>
  readonly days: Map<number, number>
  /** To be taken out of the counters of minutes. */
  moves: Map<number, number>
  /** In the stream, until the audit has read them: by minute. */
  readonly sent: Map<number, Sent>
  writtenAtMs: number
  tidiedMinute: number
}

interface Sent {
  /** By the monotonic clock: of the first. */
  readonly sinceMs: number
  readonly cycles: Map<number, number>
  events: number
  sequence: number
}

export interface SpooledEventsOptions extends SharedContext {
  /** Of the folder, the same for the next process in it. */
  readonly spoolId: string
}

export class SpooledEvents {
  readonly #options: SpooledEventsOptions
  readonly #apps = new Map<string, Sums>()
  readonly #dirty = new Set<string>()
  #timer: Timer | null = null
  #isWriting = false
  #lookedAtMs = Number.NEGATIVE_INFINITY
  /** The app that is refreshed next. */
  #cursor: IterableIterator<[string, Sums]> | null = null

  constructor(options: SpooledEventsOptions) {
    this.#options = options
    options.link.onChange((isUp) => isUp && this.#writeAgain(() => true))
  }

  /** To be called once all that an earlier process has left is added: before, the sums would be too low. */
  start(): void {
    this.#timer = this.#options.timers.setInterval(() => void this.#tick(), WRITE_MS)
    this.#timer.unref()
  }

  /** A batch is in the spool. `isFound`: an earlier process put it there, and has moved it out of its minute. */
  add(appId: string, charge: Charge, isFound = false): void {
    const { minute, cycleMinute, events } = charge
    if (events === 0) return
    const sums = this.#sumsOf(appId)
    if (minute > sums.minute) [sums.minute, sums.minuteEvents] = [minute, 0]
    if (minute === sums.minute) sums.minuteEvents += events
    add(sums.cycles, cycleMinute, events)
    add(sums.days, dayOf(minute), events)
    if (!isFound) add(sums.moves, minute, events)
    this.#dirty.add(appId)
  }

  /** It is in the stream, and comes off once the audit has read its partition up to `sequence`. */
  sent(appId: string, { minute, cycleMinute, events }: Charge, sequence: number): void {
    if (events === 0) return
    const { sent } = this.#sumsOf(appId)
    const sinceMs = this.#options.timers.monotonicMs()
    const known = sent.get(minute) ?? { sinceMs, cycles: new Map<number, number>(), events: 0, sequence: 0 }
    sent.set(minute, known)
    known.events += events
    add(known.cycles, cycleMinute, events)
    known.sequence = Math.max(known.sequence, sequence)
  }

  /** When the oldest was sent that the audit does not count yet, by the monotonic clock; infinite: it counts all. */
  get uncountedSinceMs(): number {
    let sinceMs = Number.POSITIVE_INFINITY
    for (const { sent } of this.#apps.values())
      for (const one of sent.values()) sinceMs = Math.min(sinceMs, one.sinceMs)
    return sinceMs
  }

  /** NATS has lost messages: none counts as sent any more. What may be missing was added again before. */
  forgetSent(): void {
    for (const [appId, sums] of this.#apps)
      for (const minute of sums.sent.keys()) this.#takeOffMinute(appId, sums, minute)
  }

  /** Redis has lost data of these partitions. */
  lost(partitions: readonly number[]): void {
    this.#writeAgain((partition) => partitions.includes(partition))
  }

  async stop(): Promise<void> {
    if (this.#timer === null) return
    this.#options.timers.clear(this.#timer)
    while (this.#isWriting) await new Promise<void>((resolve) => this.#options.timers.setTimeout(resolve, 1))
    await this.#write()
  }

  #sumsOf(appId: string): Sums {
    let sums = this.#apps.get(appId)
    if (sums === undefined) {
      sums = {
        partition: partitionOf(appId, this.#options.partitions),
        minute: -1,
        minuteEvents: 0,
        cycles: new Map(),
        days: new Map(),
        moves: new Map(),
        sent: new Map(),
        writtenAtMs: Number.NEGATIVE_INFINITY,
        tidiedMinute: 0,
      }
      this.#apps.set(appId, sums)
    }
    return sums
  }

  #writeAgain(isWanted: (partition: number) => boolean): void {
    for (const [appId, { partition }] of this.#apps) if (isWanted(partition)) this.#dirty.add(appId)
  }

  async #tick(): Promise<void> {
    const { link, timers, onFault } = this.#options
    if (this.#apps.size === 0 || this.#isWriting || !link.isUp) return
    this.#isWriting = true
    try {
      const atMs = timers.monotonicMs()
      this.#refreshOld(atMs)
      if (atMs - this.#lookedAtMs >= LOOK_MS) {
        this.#lookedAtMs = atMs
        await this.#look()
      }
      await this.#write()
    } catch (error) {
      onFault(error)
    } finally {
      this.#isWriting = false
    }
  }

  /** Some at a time. */
  #refreshOld(atMs: number): void {
    const count = Math.ceil((this.#apps.size * WRITE_MS * 2) / REFRESH_MS)
    for (let looked = 0; looked < count; looked += 1) {
      this.#cursor ??= this.#apps.entries()
      const next = this.#cursor.next()
      if (next.done === true) {
        this.#cursor = null
        return
      }
      const [appId, { writtenAtMs }] = next.value
      if (atMs - writtenAtMs >= REFRESH_MS) this.#dirty.add(appId)
    }
  }

  /** How far the audit has read, and takes that off. */
  async #look(): Promise<void> {
    const wanted = new Set<number>()
    for (const { partition, sent } of this.#apps.values()) if (sent.size > 0) wanted.add(partition)
    for (const partition of wanted) {
      const texts = await this.#options.link.call(
        (client) => client.mget(readKey(partition), fenceKey(partition)),
        listOf(textOrNull, 2),
      )
      if (texts === 'away') return
      const [, readUs, readMinute, sequence] = READ.exec(texts[0] ?? '') ?? []
      const fence = fenceIn(texts[1])
      // The fence comes last: before it, not each app has its new sum.
      if (fence === null || fence.timeUs !== Number(readUs) || fence.minute !== Number(readMinute)) continue
      this.#takeOff(partition, Number(sequence), fence.minute)
    }
  }

  #takeOff(partition: number, readSequence: number, closedMinute: number): void {
    for (const [appId, sums] of this.#apps) {
      if (sums.partition !== partition) continue
      for (const [minute, { sequence }] of sums.sent)
        if (minute <= closedMinute && sequence <= readSequence) this.#takeOffMinute(appId, sums, minute)
    }
  }

  #takeOffMinute(appId: string, sums: Sums, minute: number): void {
    const { events = 0, cycles = new Map<number, number>() } = sums.sent.get(minute) ?? {}
    sums.sent.delete(minute)
    if (minute === sums.minute) sums.minuteEvents = Math.max(0, sums.minuteEvents - events)
    for (const [cycle, sum] of cycles) add(sums.cycles, cycle, -sum)
    add(sums.days, dayOf(minute), -events)
    this.#dirty.add(appId)
  }

  async #write(): Promise<void> {
    const { link } = this.#options
    for (const group of this.#groups()) {
      if (!link.isUp) return
      for (let at = 0; at < group.length; at += APPS_PER_CALL)
        await this.#writeSome(group.slice(at, at + APPS_PER_CALL))
    }
  }

  /** What may share calls. */
  #groups(): string[][] {
    const groups = new Map<number, string[]>()
    for (const appId of this.#dirty) {
      const name = this.#options.link.isCluster ? this.#sumsOf(appId).partition : -1
      const group = groups.get(name)
      if (group === undefined) groups.set(name, [appId])
      else group.push(appId)
    }
    return [...groups.values()]
  }

  async #writeSome(appIds: readonly string[]): Promise<void> {
    const { link, spoolId, nodeId, timers } = this.#options
    const atMs = timers.monotonicMs()
    const minute = Math.floor(timers.nowMs() / MINUTE_MS)
    const args: (string | number)[] = [spoolId, nodeId]
    for (const appId of appIds) {
      const sums = this.#sumsOf(appId)
      args.push(Math.max(0, sums.minute), sums.minuteEvents)
      args.push(sums.cycles.size, ...[...sums.cycles].flat(), sums.days.size, ...[...sums.days].flat())
      args.push(sums.moves.size, ...[...sums.moves].flat(), sums.tidiedMinute < minute ? 1 : 0)
      sums.tidiedMinute = minute
      // Not again, whatever becomes of the call: what stays counted twice, the audit corrects.
      sums.moves = new Map()
      sums.writtenAtMs = atMs
      this.#dirty.delete(appId)
      if (sums.cycles.size + sums.sent.size === 0) this.#apps.delete(appId)
    }
    const keys = appIds.map((appId) => countsKey(partitionOf(appId, this.#options.partitions), appId))
    let isWritten = false
    try {
      isWritten = (await runScript(link, SPOOLED, keys, [JSON.stringify(args)], integer)) !== 'away'
    } finally {
      // Redis is away, or refuses the script.
      if (!isWritten) {
        for (const appId of appIds) {
          this.#sumsOf(appId)
          this.#dirty.add(appId)
        }
      }
    }
  }
}

function dayOf(minute: number): number {
  return Math.floor(minute / MINUTES_A_DAY)
}

/** A sum that comes to 0 is removed. */
function add(sums: Map<number, number>, name: number, events: number): void {
  const sum = (sums.get(name) ?? 0) + events
  if (sum > 0) sums.set(name, sum)
  else sums.delete(name)
}
