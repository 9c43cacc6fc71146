// A simulated cluster of NATS servers with JetStream: stores and acknowledges messages one after the other at its own
// pace. What its servers disagree about is in nats-replicas.ts.

import { API, NatsApi, NO_RESPONDERS } from './nats-api.ts'
import { Replicas } from './nats-replicas.ts'
import type { Random } from './random.ts'
import { type Message, type StoredMessage, Stream } from './stream.ts'
import type { World } from './world.ts'

/** Of storing a message, by default. */
const COST_MS = 0.02
const API_MS = 0.05

/** A connection as the server sees it. */
export interface Subscriber {
  /** The server that it is connected to. */
  readonly server: number
  /** `to`: the subscribed subject; `shown`: the message's own subject and reply. */
  deliver(to: string, head: string, data: Buffer, shown: { readonly subject: string; readonly reply: string }): void
}

interface Published {
  readonly message: Message
  /** The subject of the acknowledgement; empty: none is wanted. */
  readonly reply: string
  /** That the message was sent to. */
  readonly server: number
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
  readonly replicas: Replicas
  readonly #random: Random
  readonly #api = new NatsApi(this)
  readonly #interest = new Map<string, Set<Subscriber>>()
  #waiting: Published[] = []
  /** A leader that reaches no other server has them. */
  #unreplicated: Published[] = []
  #asked: (() => void)[] = []
  #isFrozen = false
  #busyUntilMs = 0
  #isScheduled = false

  constructor(world: World, random: Random, replicas: Replicas) {
    this.world = world
    this.#random = random
    this.replicas = replicas
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

  publish(message: Message, reply: string, server: number): void {
    if (!this.isUp) return
    if (message.subject.startsWith(API)) {
      this.#asked.push(() => this.#api.answer(message, { reply, server }))
      this.#answerLater()
      return
    }
    this.#waiting.push({ message, reply, server })
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

  /** `place` 0 is the leader. false: another server is cut off or behind. */
  setApart(place: number, state: 'cut' | 'behind'): boolean {
    const ends = new Map(Array.from(this.streams, ([name, { lastSequence }]) => [name, lastSequence]))
    return this.replicas.setApart(place, state, ends)
  }

  rejoin(): void {
    const leads = this.replicas.rejoin() === 'same leader'
    // Where others have led, what a quorum does not have is dropped.
    if (leads) this.#waiting.push(...this.#unreplicated)
    this.#unreplicated = []
    this.#work()
  }

  /** The processes end. Messages not stored yet are lost. */
  kill(): void {
    this.isUp = false
    this.#isFrozen = false
    this.#waiting = []
    this.#unreplicated = []
    this.#asked = []
    this.#interest.clear()
    for (const stream of this.streams.values()) stream.forgetBatches()
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
      const published = this.#waiting.shift() as Published
      this.#busyUntilMs = this.world.nowMs + this.costMs
      this.#store(published)
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

  #store(published: Published): void {
    const { message, reply, server } = published
    const found = [...this.streams].find(([, stream]) => stream.takes(message.subject))
    const leader = this.leader === 'here' ? this.replicas.leaderFor(server) : null
    if (found === undefined || leader === null) {
      if (this.leader !== 'silent') this.deliver(server, reply, NO_RESPONDERS, Buffer.alloc(0))
      return
    }
    if (this.replicas.isCut(leader)) {
      this.#unreplicated.push(published)
      return
    }
    const [name, stream] = found
    const before = stream.lastSequence
    const gathered = stream.gather(message, this.world.nowMs)
    if (gathered === null) return
    const storing = gathered ?? stream.store(message, this.world.nowMs)
    for (let sequence = before + 1; sequence <= stream.lastSequence; sequence += 1) {
      this.onStored(name, stream.at(sequence) as StoredMessage)
    }
    if (this.ackLossShare > 0 && this.#random.chance(this.ackLossShare)) return
    const { kind } = storing
    const ofBatch = gathered === undefined ? '' : `,"batch":"b","count":${stream.lastSequence - before}`
    const text =
      kind === 'refused'
        ? JSON.stringify({
            error: { code: 503, err_code: storing.code, description: storing.description },
            stream: name,
            seq: 0,
          })
        : `{"stream":"${name}", "seq":${storing.sequence}${kind === 'duplicate' ? ',"duplicate": true' : ''}${ofBatch}}`
    const answer = (): void => this.deliver(leader, reply, '', Buffer.from(text))
    this.world.after(this.costMs + this.ackDelayMs, answer)
  }

  /** From one server to the current subscribers: an answer may go to another connection than its request came from. */
  deliver(
    from: number,
    subject: string,
    head: string,
    data: Buffer,
    shown: { readonly subject: string; readonly reply: string } = { subject, reply: '' },
  ): void {
    if (!this.isUp || subject === '') return
    const prefix = subject.slice(0, subject.lastIndexOf('.'))
    const subscribers = this.#interest.get(subject) ?? this.#interest.get(prefix) ?? []
    for (const subscriber of subscribers) {
      if (this.replicas.reaches(from, subscriber.server)) subscriber.deliver(subject, head, data, shown)
    }
  }
}
