// The API of the simulated JetStream: each request is answered by the server that would answer it, from what that one has.

import type { Replicas } from './nats-replicas.ts'
import { type Message, type StoredMessage, Stream } from './stream.ts'
import type { World } from './world.ts'

export const API = '$JS.API.'
export const NO_RESPONDERS = 'NATS/1.0 503\r\n\r\n'

/** Who asked: the subject of the answer, and the server that was asked. */
interface Client {
  readonly reply: string
  readonly server: number
}

/** The cluster that the API belongs to. */
interface Jetstream {
  readonly world: World
  readonly replicas: Replicas
  readonly streams: Map<string, Stream>
  readonly leader: 'here' | 'gone' | 'silent'
  deliver(from: number, to: string, head: string, data: Buffer, shown?: { subject: string; reply: string }): void
}

export class NatsApi {
  readonly #nats: Jetstream
  #consumers = 0

  constructor(nats: Jetstream) {
    this.#nats = nats
  }

  answer({ subject, data }: Message, { reply, server }: Client): void {
    const [kind, verb, ...rest] = subject.slice(API.length).split('.')
    const asked = (data.length === 0 ? {} : JSON.parse(data.toString())) as Record<string, unknown>
    if (kind === 'DIRECT' && verb === 'GET') {
      this.#getDirect(rest[0], rest.slice(1).join('.'), asked, { reply, server })
      return
    }
    if (kind === 'CONSUMER' && verb === 'DELETE') {
      this.#nats.streams.get(rest[0])?.consumers.delete(rest[1])
      return
    }
    if (kind === 'CONSUMER' && verb === 'MSG') return this.#nextMessages(rest[1], rest[2], asked, { reply, server })
    const answer = this.#leaderAnswers([kind, verb, ...rest], asked, server)
    if (answer !== null) this.#nats.deliver(server, reply, '', Buffer.from(JSON.stringify(answer)))
  }

  /** null: no answer. */
  #leaderAnswers([kind, verb, ...rest]: string[], asked: Record<string, unknown>, server: number): object | null {
    const isCut = this.#nats.replicas.isCut(server)
    const name = kind === 'CONSUMER' ? rest[0] : (rest[1] ?? rest[0])
    if (isCut && this.#nats.leader === 'here') return this.#cutOffAnswers([kind, verb], name, { asked, server })
    if (this.#nats.leader !== 'here' || this.#nats.replicas.leaderFor(server) === null) {
      return this.#nats.leader === 'silent' ? null : failure(503, 10_008, 'JetStream system temporarily unavailable')
    }
    if (kind === 'INFO') return {}
    if (kind === 'CONSUMER') return this.#makeConsumer(name, asked, server)
    return verb === 'MSG' ? this.#getMessage(name, asked) : this.#aboutStream(verb, name, asked)
  }

  /** A server that reaches no other one: it describes what it has, and hands messages out while it believes to lead. */
  #cutOffAnswers(
    [kind, verb]: readonly [string, string],
    name: string,
    { asked, server }: { readonly asked: Record<string, unknown>; readonly server: number },
  ): object | null {
    const stream = this.#nats.streams.get(name)
    if (kind !== 'STREAM' || stream === undefined) return null
    const end = this.#nats.replicas.endOf(server, name)
    const leads = this.#nats.replicas.leaderFor(server) === server
    if (verb === 'INFO') return { ...this.#infoOf(stream, end), cluster: { leader: leads ? `n${server}` : '' } }
    return verb === 'MSG' && leads ? this.#getMessage(name, asked, end) : null
  }

  #infoOf(stream: Stream, end?: number): object {
    return { ...stream.info(this.#nats.world.epochMs, end), ts: new Date(this.#nats.world.wallMs).toISOString() }
  }

  #aboutStream(verb: string, name: string, asked: Record<string, unknown>): object {
    const stream = this.#nats.streams.get(name)
    if (verb === 'CREATE' && stream === undefined) {
      const defaults = { max_age: 0, max_msgs_per_subject: -1, max_msg_size: -1, num_replicas: 1, sealed: false }
      const made = new Stream({ ...defaults, ...asked } as never, this.#nats.world.nowMs)
      this.#nats.streams.set(name, made)
      return made.info(this.#nats.world.epochMs)
    }
    if (verb !== 'CREATE' && verb !== 'INFO') throw new Error(`STREAM.${verb} is not simulated`)
    if (stream === undefined) return failure(404, 10_059, 'stream not found')
    return this.#infoOf(stream)
  }

  #makeConsumer(name: string, { config }: Record<string, unknown>, server: number): object {
    const stream = this.#nats.streams.get(name)
    if (stream === undefined) return failure(404, 10_059, 'stream not found')
    const asked = config as { name?: string; filter_subject: string; opt_start_seq?: number; opt_start_time?: string }
    const consumer = asked.name ?? `c${++this.#consumers}`
    const fromMs = asked.opt_start_time === undefined ? 0 : Date.parse(asked.opt_start_time) - this.#nats.world.epochMs
    const byTime = stream.messages.find(({ atMs }) => atMs >= fromMs)?.sequence ?? stream.lastSequence + 1
    const next = asked.opt_start_seq ?? byTime
    const home = this.#nats.replicas.homeFrom(server)
    stream.consumers.set(consumer, { next, given: 0, subject: asked.filter_subject, home })
    return { stream_name: name, name: consumer, config: asked }
  }

  /** For a consumer with headers only and without acknowledgements, from the one server that it lives on. */
  #nextMessages(
    name: string,
    consumerName: string,
    { batch }: Record<string, unknown>,
    { reply, server }: Client,
  ): void {
    const stream = this.#nats.streams.get(name)
    const consumer = stream?.consumers.get(consumerName)
    const isThere = consumer !== undefined && this.#nats.replicas.reaches(server, consumer.home)
    if (this.#nats.leader !== 'here' || stream === undefined || consumer === undefined || !isThere) {
      if (this.#nats.leader !== 'silent') this.#nats.deliver(server, reply, NO_RESPONDERS, Buffer.alloc(0))
      return
    }
    const { home } = consumer
    const end = this.#nats.replicas.endOf(home, name)
    const all = stream.from(consumer.next, consumer.subject, end)
    const found = all.slice(0, Number(batch))
    if (found.length === 0) return this.#nats.deliver(home, reply, 'NATS/1.0 404 No Messages\r\n\r\n', Buffer.alloc(0))
    for (const [at, message] of found.entries()) {
      consumer.next = message.sequence + 1
      consumer.given++
      const timeNs = Math.round((this.#nats.world.epochMs + message.atMs) * 1000) * 1000
      const place = `$JS.ACK.${name}.${consumerName}.1.${message.sequence}.${consumer.given}.${timeNs}.${all.length - at - 1}`
      const head = message.head === '' ? 'NATS/1.0\r\n\r\n' : message.head
      this.#nats.deliver(home, reply, head, Buffer.alloc(0), { subject: message.subject, reply: place })
    }
  }

  #getMessage(name: string, asked: Record<string, unknown>, end?: number): object {
    const stream = this.#nats.streams.get(name)
    if (stream === undefined) return failure(404, 10_059, 'stream not found')
    const found = find(stream, asked, end)
    if (found === undefined) return failure(404, 10_037, 'no message found')
    const time = new Date(this.#nats.world.epochMs + found.atMs).toISOString()
    const hdrs = Buffer.from(found.head).toString('base64')
    const { subject, sequence: seq } = found
    return {
      message: { subject, seq, time, ...(found.head === '' ? {} : { hdrs }), data: found.data.toString('base64') },
    }
  }

  /** Any server answers, with what it has. */
  #getDirect(name: string, subject: string, asked: Record<string, unknown>, { reply, server }: Client): void {
    const stream = this.#nats.streams.get(name)
    if (stream === undefined) {
      this.#nats.deliver(server, reply, NO_RESPONDERS, Buffer.alloc(0))
      return
    }
    const end = this.#nats.replicas.endOf(server, name)
    const found = subject === '' ? find(stream, asked, end) : stream.lastBy(subject, end)
    if (found === undefined) {
      this.#nats.deliver(server, reply, 'NATS/1.0 404 Message Not Found\r\n\r\n', Buffer.alloc(0))
      return
    }
    const time = new Date(this.#nats.world.epochMs + found.atMs).toISOString()
    const own = found.head === '' ? 'NATS/1.0\r\n' : found.head.slice(0, -2)
    const place = `Nats-Stream: ${name}\r\nNats-Subject: ${found.subject}\r\nNats-Sequence: ${found.sequence}\r\n`
    this.#nats.deliver(server, reply, `${own}${place}Nats-Time-Stamp: ${time}\r\n\r\n`, found.data)
  }
}

function find(
  stream: Stream,
  { seq, next_by_subj, last_by_subj }: Record<string, unknown>,
  end?: number,
): StoredMessage | undefined {
  if (typeof last_by_subj === 'string') return stream.lastBy(last_by_subj, end)
  return stream.at(Number(seq ?? 1), typeof next_by_subj === 'string' ? next_by_subj : undefined, end)
}

function failure(code: number, err_code: number, description: string): object {
  return { error: { code, err_code, description } }
}
