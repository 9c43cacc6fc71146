// Sends what the spool holds to the stream, oldest first, beside live traffic: it keeps what a window of the stream may have under
// way filled up behind live requests, and at least a tenth of what is under way. Its cursor is synced after acknowledgements.

import { errorMessage } from '../../lib/errors.ts'
import type { OnNotice } from '../../lib/notice.ts'
import type { Timer, Timers } from '../../lib/timers.ts'
import { API_TIMEOUT_MS } from '../../nats/api.ts'
import type { Damage } from '../journal/segment-cursor.ts'
import { comparePositions, type JournalPosition } from '../journal/segments.ts'
import type { QueueAck } from '../queue.ts'
import type { StreamPublisher } from '../stream/publisher.ts'
import { getFromLeader } from '../stream/read/stream-message.ts'
import { CursorKeeper, type CursorKeeperParts } from './cursor-keeper.ts'
import type { Kept } from './kept-batches.ts'
import { holds, Settler } from './settler.ts'
import { readSpool, type SpooledRecord } from './spool-records.ts'

/** Read at a time, and again when half of it is sent. */
const READ_BYTES = 2 * 1024 * 1024
/** Under way, live ones included: what a window always lets out. */
const WINDOW_MESSAGES = 64
const WINDOW_BYTES = 1024 * 1024
/** Of live ones: a tenth of all. */
const LIVE_SHARE = 9
const TICK_MS = 50
/** After a record that was not taken. */
const RETRY_MS = 250
const REFUSED_RETRY_MS = 1000

interface Item {
  readonly record: SpooledRecord
  /** unsure: the stream may have it. */
  state: 'unsure' | 'ready' | 'sent' | 'done'
  /** In Unix ms. The stream has to be asked again then, since another node may have sent it too. */
  readyUntilMs: number
  burntIds: number
}

export interface DrainerParts extends CursorKeeperParts {
  readonly stream: Pick<StreamPublisher, 'resend' | 'refusalNow' | 'unackedRecords' | 'connection'>
  readonly journalDirectory: string
  readonly timers: Timers
  readonly partitions: number
  /** The end of what an earlier process has left. */
  readonly recoveredEnd: JournalPosition
  /** When Redis last did not answer this node; a key taken before may have been taken by another node as well. */
  readonly withoutRedisAtMs: () => number
  /** Only one record is sent, to see whether NATS takes it. */
  readonly isTaking: () => boolean
  readonly onSent: (record: SpooledRecord, sequence: number) => void
  readonly onTaken: () => void
  readonly onNotTaken: (ack: QueueAck) => void
  /** It was sent, and NATS may have lost it: it counts again. */
  readonly onKept: (record: SpooledRecord) => void
  /** These were sent, and NATS may have lost them. */
  readonly onTakenBack: (lost: Pick<Kept, 'batches' | 'bytes'>) => void
  readonly onDamage: (damage: Damage) => void
  readonly onNotice: OnNotice
}

export class Drainer {
  readonly #parts: DrainerParts
  readonly #settler: Settler
  readonly #keeper: CursorKeeper
  /** Where the next reading begins. */
  #next: JournalPosition
  /** Before it, any record may be in the stream. */
  #unsureEnd: JournalPosition
  /** Up to where what NATS has lost counts again; null: NATS has lost nothing. */
  #countedEnd: JournalPosition | null = null
  #items: Item[] = []
  /** The first that is not sent. */
  #at = 0
  #waitingBytes = 0
  #underWay = 0
  #bytesUnderWay = 0
  #isReading = false
  #isSettling = false
  #resumeAtMs = Number.NEGATIVE_INFINITY
  #problem: string | null = null
  #timer: Timer | null = null
  #isStopped = false

  constructor(parts: DrainerParts) {
    this.#parts = parts
    this.#next = parts.cursor.sent
    this.#unsureEnd = parts.cursor.reserved
    this.#settler = new Settler(parts.partitions, parts.timers)
    this.#keeper = new CursorKeeper(
      parts,
      (error) => {
        this.#pause(REFUSED_RETRY_MS)
        this.#setProblem(`its cursor cannot be written: ${errorMessage(error)}`)
      },
      () => this.#pump(),
    )
    this.wake()
  }

  /** The spool holds something to send. */
  wake(): void {
    if (!this.#isStopped) this.#timer ??= this.#parts.timers.setInterval(() => this.#tick(), TICK_MS)
  }

  /** When the oldest record was taken that is known; null: none is. */
  get oldestAtMs(): number | null {
    return this.#items[0]?.record.head.receivedAtMs ?? null
  }

  get isEmpty(): boolean {
    return this.#keeper.isEmpty && this.#keeper.isAllSent() && !this.#isReading
  }

  /** Sends for so long at most, then saves how far it came. */
  async stop(maxMs: number): Promise<void> {
    const { timers, stream } = this.#parts
    const untilMs = timers.monotonicMs() + maxMs
    const pause = (): Promise<void> => new Promise((resolve) => void timers.setTimeout(resolve, 10))
    const isDue = (): boolean => !this.#keeper.isAllSent() && this.#parts.isTaking() && stream.refusalNow() === null
    while (isDue() && timers.monotonicMs() < untilMs) await pause()
    this.#isStopped = true
    if (this.#timer !== null) timers.clear(this.#timer)
    this.#timer = null
    while (this.#underWay > 0 || this.#isReading) await pause()
    await this.#keeper.save()
  }

  #tick(): void {
    if (this.isEmpty) {
      if (this.#timer !== null) this.#parts.timers.clear(this.#timer)
      this.#timer = null
      return
    }
    this.#pump()
    this.#keeper.look(this.#parts.stream.connection)
  }

  #pump(): void {
    if (this.#isStopped && this.#underWay === 0) return
    const { stream, timers, isTaking } = this.#parts
    if (timers.monotonicMs() < this.#resumeAtMs) return
    if (this.#keeper.hasLost) return void this.#rewind()
    const refusal = stream.refusalNow()
    if (refusal === 'nats_away' || refusal === 'stopping') return
    this.#refill()
    const isTried = refusal !== null || !isTaking()
    while (this.#at < this.#items.length && this.#isOpen(isTried)) {
      const item = this.#items[this.#at]
      if (item.state === 'ready' && timers.nowMs() > item.readyUntilMs) item.state = 'unsure'
      if (item.state === 'unsure') return void this.#settle()
      if (!this.#keeper.isReserved(item.record.end)) return this.#reserve()
      this.#at += 1
      if (item.state === 'ready') this.#send(item)
    }
  }

  #isOpen(isTried: boolean): boolean {
    if (this.#isStopped) return false
    if (isTried) return this.#underWay === 0
    const live = this.#parts.stream.unackedRecords - this.#underWay
    const most = Math.max(1, Math.ceil(live / LIVE_SHARE), WINDOW_MESSAGES - live)
    return this.#underWay < most && (this.#underWay === 0 || this.#bytesUnderWay < WINDOW_BYTES)
  }

  #refill(): void {
    const until = this.#parts.journal.position()
    const isEmpty = comparePositions(this.#next, until) >= 0
    if (this.#isReading || this.#isStopped || isEmpty || this.#waitingBytes > READ_BYTES / 2) return
    this.#isReading = true
    let bytes = 0
    const found: Item[] = []
    const visit = (record: SpooledRecord): void => {
      bytes += record.line.length
      found.push({
        record,
        state: this.#isUnsure(record) ? 'unsure' : 'ready',
        readyUntilMs: Number.POSITIVE_INFINITY,
        burntIds: 0,
      })
    }
    readSpool({ ...this.#range(), from: this.#next, until }, visit, () => bytes >= READ_BYTES)
      .then((next) => this.#hasRead(found, bytes, next))
      .catch((error: unknown) => {
        this.#pause(REFUSED_RETRY_MS)
        this.#setProblem(`its journal cannot be read: ${errorMessage(error)}`)
      })
      .finally(() => {
        this.#isReading = false
        this.#pump()
      })
  }

  #range() {
    const { journalDirectory: directory, disk, onDamage } = this.#parts
    return { directory, disk, onDamage }
  }

  #hasRead(found: readonly Item[], bytes: number, next: JournalPosition): void {
    this.#items.push(...found)
    this.#waitingBytes += bytes
    this.#next = next
    // Damaged lines alone.
    if (this.#items.length === 0) this.#keeper.move(next)
    else this.#keeper.hasRead(next)
  }

  #isUnsure({ state, start, head, charge }: SpooledRecord): boolean {
    const { recoveredEnd, withoutRedisAtMs } = this.#parts
    if (state !== 'plain' || comparePositions(start, this.#unsureEnd) < 0) return true
    // An earlier process did not leave word of when it was without Redis.
    return head.keyed && (comparePositions(start, recoveredEnd) < 0 || withoutRedisAtMs() >= charge.takenAtMs)
  }

  async #settle(): Promise<void> {
    const { connection } = this.#parts.stream
    if (this.#isSettling || connection === null) return
    this.#isSettling = true
    const unsure = this.#items.filter(({ state }) => state === 'unsure')
    try {
      const settled = await this.#settler.settle(
        unsure.map(({ record }) => record),
        connection,
      )
      for (const [at, item] of unsure.entries()) {
        const { sequence, messageId, untilMs } = settled[at]
        item.state = 'ready'
        item.readyUntilMs = untilMs
        if (sequence !== null) this.#done(item, sequence, messageId)
      }
      this.#shift()
      this.#setProblem(null)
    } catch (error) {
      this.#pause(REFUSED_RETRY_MS)
      this.#setProblem(`what NATS has of it is not known yet: ${errorMessage(error)}`)
    }
    this.#isSettling = false
    this.#pump()
  }

  #send(item: Item): void {
    const { record } = item
    const { batchId, appId } = record.head
    item.state = 'sent'
    this.#underWay += 1
    this.#bytesUnderWay += record.line.length
    // As one with a key, so that it is a message of its own under an id that it keeps.
    const published = {
      line: record.line,
      batchId,
      appId,
      keyed: true,
      charge: record.charge,
      isSpooled: true,
    } as const
    this.#parts.stream.resend(published, item.burntIds, (ack, _events, sequence = 0) => {
      this.#underWay -= 1
      this.#bytesUnderWay -= record.line.length
      this.#acked(item, ack, sequence)
      this.#pump()
    })
  }

  #acked(item: Item, ack: QueueAck, sequence: number): void {
    if (ack === 'durable' || ack === 'duplicate') this.#parts.onTaken()
    if (ack === 'duplicate') return void this.#compare(item, sequence)
    if (ack === 'durable') {
      this.#done(item, sequence)
      return this.#shift()
    }
    item.state = ack === 'in_doubt' ? 'unsure' : 'ready'
    this.#at = Math.min(this.#at, this.#items.indexOf(item))
    if (ack === 'stopping') return
    this.#parts.onNotTaken(ack)
    this.#pause(ack === 'nats_away' || ack === 'nats_slow' || ack === 'in_doubt' ? RETRY_MS : REFUSED_RETRY_MS)
    if (ack === 'too_large_for_nats')
      this.#setProblem('its oldest batch is larger than max_payload of the NATS servers allows: set it to 1 MB')
  }

  /** The stream has a message under its id: this batch, or one that used its key long before or after. */
  async #compare(item: Item, sequence: number): Promise<void> {
    const { connection } = this.#parts.stream
    this.#underWay += 1
    try {
      const message = connection === null ? null : await getFromLeader(connection, sequence, API_TIMEOUT_MS)
      if (message === null) throw new Error('the message before it is gone')
      if (holds(message, item.record)) this.#done(item, sequence)
      else {
        item.state = 'ready'
        item.burntIds += 1
      }
    } catch (error) {
      item.state = 'unsure'
      this.#pause(RETRY_MS)
      this.#setProblem(`what NATS has of it is not known yet: ${errorMessage(error)}`)
    }
    this.#underWay -= 1
    if (item.state !== 'done') this.#at = Math.min(this.#at, this.#items.indexOf(item))
    this.#shift()
    this.#pump()
  }

  /** `messageId`: its own id, but for one that was sent before in a message with others. */
  #done(item: Item, sequence: number, messageId = item.record.head.batchId): void {
    const { record } = item
    item.state = 'done'
    this.#keeper.kept.add({ sequence, messageId }, record)
    this.#parts.onSent(record, sequence)
  }

  /** Moves the cursor over what is done. */
  #shift(): void {
    let count = 0
    while (count < this.#items.length && this.#items[count].state === 'done') {
      this.#waitingBytes -= this.#items[count].record.line.length
      count += 1
    }
    if (count === 0) return
    this.#keeper.move(this.#items[count - 1].record.end)
    this.#items.splice(0, count)
    this.#at = Math.max(0, this.#at - count)
    this.wake()
  }

  #pause(ms: number): void {
    this.#resumeAtMs = this.#parts.timers.monotonicMs() + ms
  }

  #reserve(): void {
    if (!this.#keeper.isBusy) void this.#keeper.save()
  }

  /** NATS has lost what it acknowledged: all of it is asked for, and sent again where it is missing. */
  async #rewind(): Promise<void> {
    if (this.#underWay > 0 || this.#isReading || this.#isSettling || this.#keeper.isBusy) return
    const { sent, reserved, kept } = this.#keeper
    this.#isReading = true
    try {
      // Where an earlier try could not read on, so that nothing counts twice.
      const range = { ...this.#range(), from: this.#countedEnd ?? this.#keeper.released, until: sent }
      await readSpool(range, (record) => {
        this.#countedEnd = record.end
        this.#parts.onKept(record)
      })
      for (const { state, record } of this.#items) if (state === 'done') this.#parts.onKept(record)
    } catch (error) {
      this.#isReading = false
      this.#pause(REFUSED_RETRY_MS)
      return this.#setProblem(`its journal cannot be read: ${errorMessage(error)}`)
    }
    this.#isReading = false
    this.#countedEnd = null
    const lost = kept.takeAll()
    this.#unsureEnd = reserved
    this.#next = this.#keeper.rewind()
    this.#items = []
    this.#at = this.#waitingBytes = 0
    this.#settler.forget()
    this.#parts.onTakenBack(lost)
    this.#parts.onNotice(
      `NATS has lost messages that it had acknowledged: ${lost.batches} batches that this node still has are sent again where they are missing`,
    )
  }

  #setProblem(problem: string | null): void {
    if (problem !== null && problem !== this.#problem)
      this.#parts.onNotice(`the spool is not sent: ${problem}; it is tried again, and nothing is lost`)
    this.#problem = problem
  }
}
