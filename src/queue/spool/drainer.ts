// Sends what the spool holds to the stream, oldest first, beside live traffic. Its cursor is synced after acknowledgements.

import { errorMessage } from '../../lib/errors.ts'
import type { OnNotice } from '../../lib/notice.ts'
import type { Timer, Timers } from '../../lib/timers.ts'
import { API_TIMEOUT_MS } from '../../nats/api.ts'
import type { JournalPosition } from '../journal/segments.ts'
import type { QueueAck } from '../queue.ts'
import type { StreamPublisher } from '../stream/publisher.ts'
import { getFromLeader } from '../stream/read/stream-message.ts'
import { CursorKeeper, type CursorKeeperParts } from './cursor-keeper.ts'
import { DrainWindow } from './drain-window.ts'
import { type Item, ReadAhead, type ReadAheadParts } from './read-ahead.ts'
import { holds, Settler } from './settler.ts'
import { readSpool, type SpooledRecord } from './spool-records.ts'

const TICK_MS = 50
/** After a record that was not taken. */
const RETRY_MS = 250
const REFUSED_RETRY_MS = 1000

export interface DrainerParts extends CursorKeeperParts, ReadAheadParts {
  readonly stream: Pick<StreamPublisher, 'resend' | 'refusalNow' | 'unackedRecords' | 'connection'>
  readonly timers: Timers
  readonly partitions: number
  /** Only one record is sent, to see whether NATS takes it. */
  readonly isTaking: () => boolean
  readonly onSent: (record: SpooledRecord, sequence: number) => void
  readonly onTaken: () => void
  readonly onNotTaken: (ack: QueueAck) => void
  /** It was sent, and NATS may have lost it: it counts again. */
  readonly onKept: (record: SpooledRecord) => void
  /** These were sent, and NATS may have lost them. */
  readonly onTakenBack: (lost: { readonly batches: number; readonly bytes: number }) => void
  readonly onNotice: OnNotice
}

export class Drainer {
  readonly #parts: DrainerParts
  readonly #settler: Settler
  readonly #keeper: CursorKeeper
  readonly #ahead: ReadAhead
  readonly #window = new DrainWindow()
  /** What NATS may have lost and counts again, as far as it was read; null: NATS has lost nothing. */
  #lost: { end: JournalPosition; batches: number; bytes: number } | null = null
  #isSettling = false
  #isRewinding = false
  #resumeAtMs = Number.NEGATIVE_INFINITY
  #problem: string | null = null
  #timer: Timer | null = null
  #isStopped = false

  constructor(parts: DrainerParts) {
    this.#parts = parts
    this.#ahead = new ReadAhead(parts, parts.cursor.sent, parts.cursor.reserved)
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
    return this.#ahead.oldestAtMs
  }

  get isEmpty(): boolean {
    return this.#keeper.isEmpty && this.#keeper.isAllSent() && !this.#isReading
  }

  get #isReading(): boolean {
    return this.#ahead.isReading || this.#isRewinding
  }

  /** A live record goes to the stream. */
  livePublished(): void {
    this.#window.livePublished()
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
    while (this.#window.underWay > 0 || this.#isReading) await pause()
    await this.#ahead.stop()
    await this.#keeper.save()
  }

  #tick(): void {
    if (this.isEmpty) {
      if (this.#timer !== null) this.#parts.timers.clear(this.#timer)
      this.#timer = null
      return
    }
    this.#window.tick()
    this.#pump()
    this.#keeper.look(this.#parts.stream.connection)
  }

  #pump(): void {
    if (this.#isStopped && this.#window.underWay === 0) return
    const { stream, timers, isTaking } = this.#parts
    if (timers.monotonicMs() < this.#resumeAtMs) return
    if (this.#keeper.hasLost || this.#isRewinding) return void this.#rewind()
    const refusal = stream.refusalNow()
    if (refusal === 'nats_away' || refusal === 'stopping') return
    void this.#refill()
    const isTried = refusal !== null || !isTaking()
    for (let item = this.#ahead.first; item !== undefined && this.#isOpen(isTried); item = this.#ahead.first) {
      if (item.state === 'waiting' && timers.nowMs() > item.sureUntilMs) return void this.#settle()
      if (!this.#keeper.isReserved(item.record.end)) return this.#keeper.reserve()
      this.#ahead.pass()
      if (item.state === 'waiting') this.#send(item)
    }
  }

  #isOpen(isTried: boolean): boolean {
    const { underWay } = this.#window
    if (this.#isStopped) return false
    return isTried ? underWay === 0 : this.#window.isOpen(this.#parts.stream.unackedRecords - underWay)
  }

  async #refill(): Promise<void> {
    const until = this.#parts.journal.position()
    if (this.#isStopped || !this.#ahead.isDue(until)) return
    try {
      this.#keeper.hasRead(await this.#ahead.read(until))
      // Where there were damaged lines alone.
      this.#shift()
    } catch (error) {
      this.#pause(REFUSED_RETRY_MS)
      this.#setProblem(`its journal cannot be read: ${errorMessage(error)}`)
    }
    this.#pump()
  }

  async #settle(): Promise<void> {
    const { connection } = this.#parts.stream
    // All that is read ahead is asked for at once.
    if (this.#isSettling || this.#ahead.isReading || connection === null) return
    this.#isSettling = true
    const unsure = this.#ahead.unsure(this.#parts.timers.nowMs())
    try {
      const settled = await this.#settler.settle(
        unsure.map(({ record }) => record),
        connection,
      )
      for (const [at, item] of unsure.entries()) {
        const { sequence, messageId, untilMs } = settled[at]
        item.sureUntilMs = untilMs
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
    this.#window.add(record.line.length)
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
      this.#window.remove(record.line.length)
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
    this.#putBack(item, ack === 'in_doubt')
    if (ack === 'stopping') return
    this.#parts.onNotTaken(ack)
    this.#pause(ack === 'nats_away' || ack === 'nats_slow' || ack === 'in_doubt' ? RETRY_MS : REFUSED_RETRY_MS)
    if (ack === 'too_large_for_nats')
      this.#setProblem('its oldest batch is larger than max_payload of the NATS servers allows: set it to 1 MB')
  }

  /** The stream has a message under its id: this batch, or one that used its key long before or after. */
  async #compare(item: Item, sequence: number): Promise<void> {
    const { connection } = this.#parts.stream
    this.#window.add(0)
    try {
      const message = connection === null ? null : await getFromLeader(connection, sequence, API_TIMEOUT_MS)
      if (message === null) throw new Error('the message before it is gone')
      if (holds(message, item.record)) this.#done(item, sequence)
      else {
        item.burntIds += 1
        this.#putBack(item, false)
      }
    } catch (error) {
      this.#putBack(item, true)
      this.#pause(RETRY_MS)
      this.#setProblem(`what NATS has of it is not known yet: ${errorMessage(error)}`)
    }
    this.#window.remove(0)
    this.#shift()
    this.#pump()
  }

  #putBack(item: Item, mayBeSent: boolean): void {
    item.state = 'waiting'
    if (mayBeSent) item.sureUntilMs = Number.NEGATIVE_INFINITY
    this.#ahead.putBack(item)
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
    const end = this.#ahead.takeDone()
    if (end === null) return
    this.#keeper.move(end)
    this.wake()
  }

  #pause(ms: number): void {
    this.#resumeAtMs = this.#parts.timers.monotonicMs() + ms
  }

  /** NATS has lost what it acknowledged: all of it is asked for, and sent again where it is missing. */
  async #rewind(): Promise<void> {
    if (this.#window.underWay > 0 || this.#isReading || this.#isSettling || this.#keeper.isBusy) return
    const { journalDirectory: directory, disk, onDamage, onKept } = this.#parts
    const { sent: until, reserved, released, kept } = this.#keeper
    this.#isRewinding = true
    // Where an earlier try could not read on, so that nothing counts twice.
    const lost = (this.#lost ??= { end: released, batches: 0, bytes: 0 })
    const count = (record: SpooledRecord): void => {
      lost.end = record.end
      lost.batches += 1
      lost.bytes += record.line.length
      onKept(record)
    }
    try {
      await readSpool({ directory, disk, onDamage, from: lost.end, until }, count)
    } catch (error) {
      this.#isRewinding = false
      this.#pause(REFUSED_RETRY_MS)
      return this.#setProblem(`its journal cannot be read: ${errorMessage(error)}`)
    }
    for (const { record } of this.#ahead.in('done')) count(record)
    this.#lost = null
    kept.clear()
    await this.#ahead.restart(this.#keeper.rewind(), reserved)
    this.#isRewinding = false
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
