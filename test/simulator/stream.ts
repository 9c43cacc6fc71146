// A simulated JetStream stream: sequences, a duplicate window, a maximum size, and a tail that is not synced yet.

import type { StreamConfig, StreamInfo } from '@nats-io/jetstream'

export interface Message {
  readonly subject: string
  /** The header block as sent; empty: none. */
  readonly head: string
  readonly data: Buffer
}

export interface StoredMessage extends Message {
  readonly sequence: number
  readonly id: string | null
  /** By the world's clock. */
  readonly atMs: number
}

/** The result in JetStream's answer to a publish. */
export type StoreResult =
  | { readonly kind: 'stored' | 'duplicate'; readonly sequence: number }
  | { readonly kind: 'refused'; readonly code: number; readonly description: string }

const NANOSECONDS_IN_MS = 1_000_000
const DEFAULT_WINDOW_MS = 120_000
const ID = /\r\nNats-Msg-Id: ?([^\r]*)\r\n/i
const OF_BATCH = /\r\nNats-Batch-Id: ?([^\r]*)\r\nNats-Batch-Sequence: ?(\d+)\r\n(Nats-Batch-Commit: ?1\r\n)?/i
const EXPECTED = /\r\nNats-Expected-Last-Subject-Sequence: ?(\d+)\r\n/i

interface StreamConsumer {
  /** The sequence delivered next. */
  next: number
  /** Messages delivered so far. */
  given: number
  readonly subject: string
  /** The server that it lives on. */
  readonly home: number
}

export class Stream {
  readonly consumers = new Map<string, StreamConsumer>()
  readonly config: StreamConfig
  readonly createdAtMs: number
  isFull = false
  /** In the order of their sequences, without gaps. */
  readonly messages: StoredMessage[] = []
  lastSequence = 0
  readonly #windowMs: number
  readonly #ids = new Map<string, StoredMessage>()
  #bytes = 0
  /** The messages of each subject, in the order of their sequences. */
  readonly #subjects = new Map<string, StoredMessage[]>()
  /** What the last server had that was behind; null: it may have changed. */
  #part: Stream | null = null
  readonly #batches = new Map<string, Message[]>()

  constructor(config: StreamConfig, createdAtMs: number) {
    this.config = config
    this.createdAtMs = createdAtMs
    this.#windowMs = (config.duplicate_window ?? 0) / NANOSECONDS_IN_MS || DEFAULT_WINDOW_MS
  }

  get firstSequence(): number {
    return this.messages[0]?.sequence ?? this.lastSequence + 1
  }

  takes(subject: string): boolean {
    return (this.config.subjects ?? []).some((pattern) => matches(pattern, subject))
  }

  store(message: Message, nowMs: number): StoreResult {
    const id = ID.exec(message.head)?.[1] ?? null
    const original = id === null ? undefined : this.#original(id, nowMs)
    if (original !== undefined) {
      return { kind: 'duplicate', sequence: original.sequence }
    }
    const expected = EXPECTED.exec(message.head)?.[1]
    if (expected !== undefined && Number(expected) !== (this.lastBy(message.subject)?.sequence ?? 0)) {
      return { kind: 'refused', code: 10_071, description: 'wrong last sequence' }
    }
    if (this.isFull) return { kind: 'refused', code: 10_077, description: 'maximum bytes exceeded' }
    this.lastSequence++
    const stored: StoredMessage = { ...message, sequence: this.lastSequence, id, atMs: nowMs }
    this.#add(stored)
    if (id !== null) this.#ids.set(id, stored)
    return { kind: 'stored', sequence: stored.sequence }
  }

  /** Keeps a message of an atomic batch until its last one comes. undefined: it is no part of one; null: that is not the last. */
  gather(message: Message, nowMs: number): StoreResult | null | undefined {
    const [, id, place, isLast] = OF_BATCH.exec(message.head) ?? []
    if (id === undefined) return undefined
    const batch = this.#batches.get(id) ?? []
    batch.push(message)
    this.#batches.set(id, batch)
    if (isLast === undefined) return null
    this.#batches.delete(id)
    const refused = (description: string): StoreResult => ({ kind: 'refused', code: 10_000, description })
    if (batch.length !== Number(place)) return refused('atomic publish batch is incomplete')
    const ids = batch.map(({ head }) => ID.exec(head)?.[1] ?? '')
    if (new Set(ids).size < ids.length || ids.some((one) => this.#original(one, nowMs) !== undefined)) {
      return refused('atomic publish batch contains duplicate message id')
    }
    return batch.map((one) => this.store(one, nowMs)).at(-1)
  }

  /** The servers forget what is not whole. */
  forgetBatches(): void {
    this.#batches.clear()
  }

  #original(id: string, nowMs: number): StoredMessage | undefined {
    const original = this.#ids.get(id)
    return original !== undefined && original.atMs + this.#windowMs > nowMs ? original : undefined
  }

  /** The server's machine fails before it has synced the messages after `sinceMs`. Their sequences are used again. */
  loseTail(sinceMs: number): StoredMessage[] {
    this.#part = null
    const lost: StoredMessage[] = []
    for (let last = this.messages.at(-1); last !== undefined && last.atMs > sinceMs; last = this.messages.at(-1)) {
      this.messages.pop()
      this.#forget(last)
      lost.push(last)
      this.lastSequence = last.sequence - 1
      if (last.id !== null) this.#ids.delete(last.id)
    }
    return lost
  }

  /** Removes the messages of before this time. */
  age(beforeMs: number): void {
    this.#part = null
    const kept = this.messages.findIndex(({ atMs }) => atMs >= beforeMs)
    for (const gone of this.messages.splice(0, kept < 0 ? this.messages.length : kept)) this.#forget(gone)
  }

  #add(message: StoredMessage): void {
    this.messages.push(message)
    this.#bytes += message.data.length + message.head.length
    const others = this.#subjects.get(message.subject)
    if (others === undefined) this.#subjects.set(message.subject, [message])
    else others.push(message)
  }

  /** The first or the last one on its subject. */
  #forget(message: StoredMessage): void {
    this.#bytes -= message.data.length + message.head.length
    const all = this.#subjects.get(message.subject) ?? []
    if (all.at(-1) === message) all.pop()
    else all.shift()
    if (all.length === 0) this.#subjects.delete(message.subject)
  }

  /** In the order of their sequences. */
  #on(subject: string): readonly StoredMessage[] {
    const isPattern = subject.includes('*') || subject.endsWith('>')
    return isPattern
      ? this.messages.filter((one) => matches(subject, one.subject))
      : (this.#subjects.get(subject) ?? [])
  }

  /** The first message on the subject from this sequence on, for a server that has all up to `end`. */
  at(sequence: number, subject?: string, end = Number.POSITIVE_INFINITY): StoredMessage | undefined {
    const found =
      subject === undefined ? this.messages[sequence - this.firstSequence] : this.from(sequence, subject, end)[0]
    return found === undefined || found.sequence > end ? undefined : found
  }

  /** All messages on the subject from this sequence on, for a server that has all up to `end`. */
  from(sequence: number, subject: string, end: number): readonly StoredMessage[] {
    const all = this.#on(subject)
    return all.slice(placeOf(all, sequence), placeOf(all, end + 1))
  }

  lastBy(subject: string, end = Number.POSITIVE_INFINITY): StoredMessage | undefined {
    const all = this.#on(subject)
    return all[placeOf(all, end + 1) - 1]
  }

  /** JetStream's answer to STREAM.INFO. */
  info(epochMs: number, end = Number.POSITIVE_INFINITY): StreamInfo {
    const { config } = this
    if (end < this.lastSequence) return this.#upTo(end).info(epochMs)
    const timeOf = (atMs: number): string => new Date(epochMs + atMs).toISOString()
    const state = {
      messages: this.messages.length,
      bytes: this.#bytes,
      first_seq: this.firstSequence,
      last_seq: this.lastSequence,
      first_ts: timeOf(this.messages[0]?.atMs ?? 0),
      last_ts: timeOf(this.messages.at(-1)?.atMs ?? 0),
      consumer_count: 0,
      num_subjects: this.#subjects.size,
    }
    return { config, created: timeOf(this.createdAtMs), state } as unknown as StreamInfo
  }

  /** What a server has that is behind. */
  #upTo(end: number): Stream {
    if (this.#part?.lastSequence === end) return this.#part
    const part = new Stream(this.config, this.createdAtMs)
    for (const message of this.messages) {
      if (message.sequence > end) break
      part.#add(message)
    }
    part.lastSequence = end
    this.#part = part
    return part
  }
}

/** Where the first message stands that has this sequence, or a later one. */
function placeOf(messages: readonly StoredMessage[], sequence: number): number {
  let [from, to] = [0, messages.length]
  while (from < to) {
    const middle = (from + to) >> 1
    if (messages[middle].sequence < sequence) from = middle + 1
    else to = middle
  }
  return from
}

function matches(pattern: string, subject: string): boolean {
  if (pattern === '>' || pattern === subject) return true
  const wanted = pattern.split('.')
  const tokens = subject.split('.')
  for (const [at, want] of wanted.entries()) {
    if (want === '>') return tokens.length > at
    if (at >= tokens.length || (want !== '*' && want !== tokens[at])) return false
  }
  return wanted.length === tokens.length
}
