// A simulated NATS server with JetStream: stores and acknowledges messages one after the other at its own pace, and
// answers the requests of its API.

import type { Random } from './random.ts'
import { type Message, type StoredMessage, Stream } from './stream.ts'
import type { World } from './world.ts'

/** Of storing a message, by default. */
const COST_MS = 0.02
const API_MS = 0.05
const API = '$JS.API.'

/** A connection as the server sees it. */
export interface Subscriber {
  /** `to`: the subscribed subject; `shown`: the message's own subject and reply. */
  deliver(to: string, head: string, data: Buffer, shown: { readonly subject: string; readonly reply: string }): void
}

interface Published {
  readonly message: Message
  /** The subject of the acknowledgement; empty: none is wanted. */
  readonly reply: string
}

export class NatsServer {
  isUp = true
  /** Of storing one message. */
  costMs = COST_MS
  /** Added to the time of each acknowledgement. */
  ackDelayMs = 0
  /** The share of acknowledgements that are lost. */
  ackLossShare = 0
  /** gone: the servers elect a leader, and refuse messages. silent: they do not even answer. */
  leader: 'here' | 'gone' | 'silent' = 'here'
  readonly streams = new Map<string, Stream>()
  readonly world: World
  /** Called for each message that a stream has stored. */
  onStored: (stream: string, message: StoredMessage) => void = () => {}
  readonly #random: Random
  #consumers = 0
  readonly #interest = new Map<string, Set<Subscriber>>()
  #waiting: Published[] = []
  #asked: (() => void)[] = []
  #isFrozen = false
  #busyUntilMs = 0
  #isScheduled = false

  constructor(world: World, random: Random) {
    this.world = world
    this.#random = random
  }

  get isFrozen(): boolean {
    return this.#isFrozen
  }

  subscribe(pattern: string, subscriber: Subscriber): void {
    const subject = pattern.replace(/\.[*>]$/, '')
    const subscribers = this.#interest.get(subject)
    if (subscribers === undefined) this.#interest.set(subject, new Set([subscriber]))
    else subscribers.add(subscriber)
  }

  leave(subscriber: Subscriber): void {
    for (const [subject, subscribers] of this.#interest) {
      if (subscribers.delete(subscriber) && subscribers.size === 0) this.#interest.delete(subject)
    }
  }

  publish(message: Message, reply: string): void {
    if (!this.isUp) return
    if (message.subject.startsWith(API)) {
      this.#asked.push(() => this.#answerApi(message, reply))
      this.#answerLater()
      return
    }
    this.#waiting.push({ message, reply })
    this.#work()
  }

  /** Answers a ping of the protocol. */
  ping(answer: () => void): void {
    this.#asked.push(answer)
    this.#answerLater()
  }

  freeze(): void {
    this.#isFrozen = true
  }

  thaw(): void {
    this.#isFrozen = false
    this.#answerLater()
    this.#work()
  }

  /** The process ends. Messages not stored yet are lost. */
  kill(): void {
    this.isUp = false
    this.#isFrozen = false
    this.#waiting = []
    this.#asked = []
    this.#interest.clear()
  }

  start(): void {
    this.isUp = true
    this.#busyUntilMs = this.world.nowMs
  }

  #answerLater(): void {
    this.world.after(API_MS, () => {
      if (this.#isFrozen || !this.isUp) return
      const asked = this.#asked
      this.#asked = []
      for (const answer of asked) answer()
    })
  }

  #work(): void {
    while (this.#waiting.length > 0 && !this.#isFrozen && this.isUp) {
      if (this.#busyUntilMs > this.world.nowMs) {
        this.#workLater()
        return
      }
      const { message, reply } = this.#waiting.shift() as Published
      this.#busyUntilMs = this.world.nowMs + this.costMs
      this.#store(message, reply)
    }
  }

  #workLater(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.world.at(this.#busyUntilMs, () => {
      this.#isScheduled = false
      this.#work()
    })
  }

  #store(message: Message, reply: string): void {
    const found = [...this.streams].find(([, stream]) => stream.takes(message.subject))
    if (found === undefined || this.leader !== 'here') {
      if (this.leader !== 'silent') this.#deliver(reply, 'NATS/1.0 503\r\n\r\n', Buffer.alloc(0))
      return
    }
    const [name, stream] = found
    const storing = stream.store(message, this.world.nowMs)
    if (storing.kind === 'stored') this.onStored(name, stream.messages.at(-1) as StoredMessage)
    if (this.ackLossShare > 0 && this.#random.chance(this.ackLossShare)) return
    const { kind } = storing
    const text =
      kind === 'refused'
        ? JSON.stringify({
            error: { code: 503, err_code: storing.code, description: storing.description },
            stream: name,
            seq: 0,
          })
        : `{"stream":"${name}", "seq":${storing.sequence}${kind === 'duplicate' ? ',"duplicate": true' : ''}}`
    const answer = (): void => this.#deliver(reply, '', Buffer.from(text))
    this.world.after(this.costMs + this.ackDelayMs, answer)
  }

  /** To the current subscribers: an answer may go to another connection than its request came from. */
  #deliver(
    subject: string,
    head: string,
    data: Buffer,
    shown: { readonly subject: string; readonly reply: string } = { subject, reply: '' },
  ): void {
    if (!this.isUp || subject === '') return
    const prefix = subject.slice(0, subject.lastIndexOf('.'))
    const subscribers = this.#interest.get(subject) ?? this.#interest.get(prefix) ?? []
    for (const subscriber of subscribers) subscriber.deliver(subject, head, data, shown)
  }

  #answerApi({ subject, data }: Message, reply: string): void {
    const [kind, verb, ...rest] = subject.slice(API.length).split('.')
    const asked = (data.length === 0 ? {} : JSON.parse(data.toString())) as Record<string, unknown>
    if (kind === 'DIRECT' && verb === 'GET') {
      this.#getDirect(rest[0], rest.slice(1).join('.'), asked, reply)
      return
    }
    if (kind === 'CONSUMER' && verb === 'DELETE') {
      this.streams.get(rest[0])?.consumers.delete(rest[1])
      return
    }
    if (kind === 'CONSUMER' && verb === 'MSG') return this.#nextMessages(rest[1], rest[2], asked, reply)
    const answer =
      kind === 'CONSUMER'
        ? this.#makeConsumer(rest[0], asked)
        : kind === 'STREAM' && verb === 'MSG'
          ? this.#getFromLeader(rest[1], asked)
          : this.#aboutStream(verb, rest[0], asked)
    if (answer !== null) this.#deliver(reply, '', Buffer.from(JSON.stringify(answer)))
  }

  /** null: no answer. */
  #aboutStream(verb: string, name: string, asked: Record<string, unknown>): object | null {
    if (this.leader !== 'here') {
      return this.leader === 'silent' ? null : failure(503, 10_008, 'JetStream system temporarily unavailable')
    }
    const stream = this.streams.get(name)
    if (verb === 'CREATE' && stream === undefined) {
      const defaults = { max_age: 0, max_msgs_per_subject: -1, max_msg_size: -1, num_replicas: 1, sealed: false }
      const made = new Stream({ ...defaults, ...asked } as never, this.world.nowMs)
      this.streams.set(name, made)
      return made.info(this.world.epochMs)
    }
    if (verb !== 'CREATE' && verb !== 'INFO') throw new Error(`STREAM.${verb} is not simulated`)
    if (stream === undefined) return failure(404, 10_059, 'stream not found')
    return { ...stream.info(this.world.epochMs), ts: new Date(this.world.wallMs).toISOString() }
  }

  #makeConsumer(name: string, { config }: Record<string, unknown>): object | null {
    if (this.leader !== 'here') return this.leader === 'silent' ? null : failure(503, 10_008, 'no leader')
    const stream = this.streams.get(name)
    if (stream === undefined) return failure(404, 10_059, 'stream not found')
    const asked = config as { name?: string; filter_subject: string; opt_start_seq?: number; opt_start_time?: string }
    const consumer = asked.name ?? `c${++this.#consumers}`
    const fromMs = asked.opt_start_time === undefined ? 0 : Date.parse(asked.opt_start_time) - this.world.epochMs
    const byTime = stream.messages.find(({ atMs }) => atMs >= fromMs)?.sequence ?? stream.lastSequence + 1
    stream.consumers.set(consumer, { next: asked.opt_start_seq ?? byTime, given: 0, subject: asked.filter_subject })
    return { stream_name: name, name: consumer, config: asked }
  }

  /** For a consumer with headers only and without acknowledgements. */
  #nextMessages(name: string, consumerName: string, { batch }: Record<string, unknown>, reply: string): void {
    const stream = this.streams.get(name)
    const consumer = stream?.consumers.get(consumerName)
    if (this.leader !== 'here' || stream === undefined || consumer === undefined) {
      if (this.leader !== 'silent') this.#deliver(reply, 'NATS/1.0 503\r\n\r\n', Buffer.alloc(0))
      return
    }
    const found: StoredMessage[] = []
    let pending = 0
    for (
      let at = stream.at(consumer.next, consumer.subject);
      at !== undefined;
      at = stream.at(at.sequence + 1, consumer.subject)
    ) {
      if (found.length < Number(batch)) found.push(at)
      else pending++
    }
    if (found.length === 0) return this.#deliver(reply, 'NATS/1.0 404 No Messages\r\n\r\n', Buffer.alloc(0))
    for (const [at, message] of found.entries()) {
      consumer.next = message.sequence + 1
      consumer.given++
      const timeNs = Math.round((this.world.epochMs + message.atMs) * 1000) * 1000
      const place = `$JS.ACK.${name}.${consumerName}.1.${message.sequence}.${consumer.given}.${timeNs}.${pending + found.length - at - 1}`
      const head = message.head === '' ? 'NATS/1.0\r\n\r\n' : message.head
      this.#deliver(reply, head, Buffer.alloc(0), { subject: message.subject, reply: place })
    }
  }

  #getFromLeader(name: string, asked: Record<string, unknown>): object | null {
    if (this.leader !== 'here') return this.leader === 'silent' ? null : failure(503, 10_008, 'no leader')
    const stream = this.streams.get(name)
    if (stream === undefined) return failure(404, 10_059, 'stream not found')
    const found = find(stream, asked)
    if (found === undefined) return failure(404, 10_037, 'no message found')
    const time = new Date(this.world.epochMs + found.atMs).toISOString()
    const hdrs = Buffer.from(found.head).toString('base64')
    const { subject, sequence: seq } = found
    return {
      message: { subject, seq, time, ...(found.head === '' ? {} : { hdrs }), data: found.data.toString('base64') },
    }
  }

  #getDirect(name: string, subject: string, asked: Record<string, unknown>, reply: string): void {
    const stream = this.streams.get(name)
    if (stream === undefined) {
      this.#deliver(reply, 'NATS/1.0 503\r\n\r\n', Buffer.alloc(0))
      return
    }
    const found = subject === '' ? find(stream, asked) : stream.lastBy(subject)
    if (found === undefined) {
      this.#deliver(reply, 'NATS/1.0 404 Message Not Found\r\n\r\n', Buffer.alloc(0))
      return
    }
    const time = new Date(this.world.epochMs + found.atMs).toISOString()
    const own = found.head === '' ? 'NATS/1.0\r\n' : found.head.slice(0, -2)
    const place = `Nats-Stream: ${name}\r\nNats-Subject: ${found.subject}\r\nNats-Sequence: ${found.sequence}\r\n`
    this.#deliver(reply, `${own}${place}Nats-Time-Stamp: ${time}\r\n\r\n`, found.data)
  }
}

function find(stream: Stream, { seq, next_by_subj, last_by_subj }: Record<string, unknown>): StoredMessage | undefined {
  if (typeof last_by_subj === 'string') return stream.lastBy(last_by_subj)
  return stream.at(Number(seq ?? 1), typeof next_by_subj === 'string' ? next_by_subj : undefined)
}

function failure(code: number, err_code: number, description: string): object {
  return { error: { code, err_code, description } }
}
