// A node's connection to the simulated NATS, which replaces the client library's: only what src/ uses of it.

import { type Msg, MsgHdrsImpl, type NatsConnection } from '@nats-io/transport-node'
import type { Dial } from '../../src/nats/connection.ts'
import type { NatsServer, Subscriber } from './nats-server.ts'
import type { Random } from './random.ts'
import type { Message } from './stream.ts'
import { type Path, Wire } from './wire.ts'
import type { Host } from './world.ts'

const GREETING_TIMEOUT_MS = 2000
const PING_INTERVAL_MS = 1500
const MAX_PINGS_OUT = 2
const MAX_PAYLOAD_BYTES = 1024 * 1024

export function dialsTo(server: NatsServer, path: Path, host: Host, random: Random): Dial {
  return async (_address, { host: name }, signal) => {
    const connection = new Connection({ nats: server, server: numberOf(name) }, path, host, random)
    const timeout = host.timers.setTimeout(() => connection.fail(new Error('timeout')), GREETING_TIMEOUT_MS)
    const abort = (): void => connection.fail(new Error('stopping'))
    signal.addEventListener('abort', abort)
    try {
      await connection.opened
      return connection as unknown as NatsConnection
    } finally {
      host.timers.clear(timeout)
      signal.removeEventListener('abort', abort)
    }
  }
}

/** `n2` is the third. */
function numberOf(name: string): number {
  return Number(name.slice(1))
}

interface Subscription {
  readonly pattern: string
  readonly callback: (error: Error | null, message: Msg) => void
}

interface Status {
  readonly type: 'staleConnection'
}

class Connection implements Subscriber {
  readonly opened: Promise<void>
  readonly options = { inboxPrefix: '_INBOX' }
  readonly info = { max_payload: MAX_PAYLOAD_BYTES, headers: true, version: '2.10.24' }
  readonly getServerVersion = (): object => ({ major: 2, minor: 10, micro: 24 })
  readonly features = { get: () => ({ ok: true, min: '' }), supports: () => true, require: () => {} }
  readonly protocol = {
    connected: true,
    outbound: { fill: (bytes: Uint8Array) => this.#sendRaw(bytes), drain: () => null, length: () => 0 },
    transport: { send: () => {}, socket: { writableLength: 0 } },
  }
  /** The one that it is connected to. */
  readonly server: number
  readonly getServer = (): string => `n${this.server}:4222`
  readonly #nats: NatsServer
  readonly #host: Host
  readonly #wire: Wire
  readonly #inbox: string
  readonly #subscriptions: Subscription[] = []
  readonly #statuses: Status[] = []
  #wakeStatus: (() => void) | null = null
  #requests = 0
  #pingsOut = 0
  #isOver = false
  #open: () => void = () => {}
  #refuse: (error: Error) => void = () => {}
  #resolveClosed: (error: Error | undefined) => void = () => {}
  readonly #closed: Promise<Error | undefined>

  constructor({ nats, server }: { nats: NatsServer; server: number }, path: Path, host: Host, random: Random) {
    this.#nats = nats
    this.server = server
    this.#host = host
    this.#inbox = `_INBOX.${random.int(0, 0xffffffff).toString(16)}`
    this.#closed = new Promise((resolve) => (this.#resolveClosed = resolve))
    this.opened = new Promise((resolve, reject) => {
      this.#open = resolve
      this.#refuse = reject
    })
    this.#wire = new Wire(path, host, () => this.fail(new Error('connect ECONNREFUSED')))
    host.onKill(() => this.#leave())
    this.#wire.toServer(() => {
      if (nats.isUp) nats.ping(() => this.#wire.toHost(() => this.#opened()))
      else this.#wire.cut()
    })
    if (path.state === 'cut') this.#wire.cut()
  }

  #opened(): void {
    this.subscribe(`${this.#inbox}.*`, { callback: () => {} })
    const ping = (): void => {
      if (this.#isOver) return
      if (this.#pingsOut >= MAX_PINGS_OUT) {
        this.#emitStatus({ type: 'staleConnection' })
        return
      }
      this.#pingsOut++
      const answer = (): void => this.#wire.toHost(() => (this.#pingsOut = 0))
      this.#wire.toServer(() => this.#nats.ping(answer))
      this.#host.timers.setTimeout(ping, PING_INTERVAL_MS)
    }
    this.#host.timers.setTimeout(ping, PING_INTERVAL_MS)
    this.#open()
  }

  subscribe(pattern: string, { callback }: { callback: Subscription['callback'] }): { unsubscribe(): void } {
    const subscription = { pattern: pattern.replace(/[*>]$/, ''), callback }
    this.#subscriptions.push(subscription)
    this.#wire.toServer(() => this.#nats.subscribe(pattern, this))
    return { unsubscribe: () => void this.#subscriptions.splice(this.#subscriptions.indexOf(subscription), 1) }
  }

  publish(
    subject: string,
    data: Uint8Array | string = '',
    { reply = '', headers }: { reply?: string; headers?: MsgHdrsImpl } = {},
  ): void {
    const head = headers === undefined ? '' : Buffer.from(headers.encode()).toString('latin1')
    const message = { subject, head, data: Buffer.from(data as string) }
    this.#wire.toServer(() => this.#nats.publish(message, reply, this.server))
  }

  request(
    subject: string,
    data: Uint8Array | string = '',
    { timeout = 1000, headers }: { timeout?: number; headers?: MsgHdrsImpl } = {},
  ): Promise<Msg> {
    if (this.#isOver) return Promise.reject(new Error('closed connection'))
    return new Promise((resolve, reject) => {
      const reply = `${this.#inbox}.${++this.#requests}`
      const timer = this.#host.timers.setTimeout(() => {
        this.#forget(subscription)
        reject(new Error('timeout'))
      }, timeout)
      const subscription: Subscription = {
        pattern: reply,
        callback: (_error, message) => {
          this.#host.timers.clear(timer)
          this.#forget(subscription)
          if (message.headers?.code === 503) reject(new Error('no responders'))
          else resolve(message)
        },
      }
      // In front of the subscription to the whole inbox.
      this.#subscriptions.unshift(subscription)
      this.publish(subject, data, headers === undefined ? { reply } : { reply, headers })
    })
  }

  isClosed(): boolean {
    return this.#isOver
  }

  closed(): Promise<Error | undefined> {
    return this.#closed
  }

  async close(): Promise<void> {
    this.#end(undefined)
  }

  async flush(): Promise<void> {}

  async *status(): AsyncGenerator<Status> {
    while (!this.#isOver) {
      const next = this.#statuses.shift()
      if (next !== undefined) yield next
      else await new Promise<void>((resolve) => (this.#wakeStatus = resolve))
    }
  }

  deliver(subject: string, head: string, data: Buffer, shown: { subject: string; reply: string }): void {
    this.#wire.toHost(() => {
      const found = this.#subscriptions.find(({ pattern }) => {
        return pattern.endsWith('.') ? subject.startsWith(pattern) : pattern === subject
      })
      found?.callback(null, messageOf(shown, head, data))
    })
  }

  fail(error: Error): void {
    this.#refuse(error)
    this.#end(error)
  }

  #forget(subscription: Subscription): void {
    const at = this.#subscriptions.indexOf(subscription)
    if (at >= 0) this.#subscriptions.splice(at, 1)
  }

  #emitStatus(status: Status): void {
    this.#statuses.push(status)
    this.#wakeStatus?.()
  }

  #end(error: Error | undefined): void {
    if (this.#isOver) return
    this.#isOver = true
    this.protocol.connected = false
    this.#leave()
    this.#wakeStatus?.()
    this.#resolveClosed(error)
  }

  #leave(): void {
    this.#nats.leave(this)
    this.#wire.close()
  }

  /** Parses the HPUB lines that src/queue writes. */
  #sendRaw(bytes: Uint8Array): void {
    if (this.#isOver) return
    // A copy, as the kernel makes one: the sender uses its memory again.
    const published = parse(Buffer.from(bytes))
    this.#wire.toServer(() => {
      for (const { message, reply } of published) this.#nats.publish(message, reply, this.server)
    })
  }
}

function parse(bytes: Buffer): { message: Message; reply: string }[] {
  const found: { message: Message; reply: string }[] = []
  for (let at = 0; at < bytes.length; ) {
    const lineEnd = bytes.indexOf('\r\n', at)
    const words = bytes.toString('latin1', at, lineEnd).split(' ')
    if (words.length < 4 || words.length > 5 || words[0] !== 'HPUB')
      throw new Error(`not an HPUB line: ${words.join(' ')}`)
    const [, subject] = words
    const [reply, headBytes, allBytes] = words.length === 5 ? words.slice(2) : ['', ...words.slice(2)]
    const start = lineEnd + 2
    const end = start + Number(allBytes)
    const head = bytes.toString('latin1', start, start + Number(headBytes))
    if (!head.endsWith('\r\n\r\n')) throw new Error('a message without the end of its headers')
    if (bytes[end] !== 13 || bytes[end + 1] !== 10) throw new Error('a message of another length than it says')
    found.push({ message: { subject, head, data: bytes.subarray(start + Number(headBytes), end) }, reply })
    at = end + 2
  }
  return found
}

function messageOf({ subject, reply }: { subject: string; reply: string }, head: string, data: Buffer): Msg {
  const headers = head === '' ? undefined : MsgHdrsImpl.decode(Buffer.from(head))
  return { subject, reply, data, headers, json: () => JSON.parse(data.toString()) as unknown } as unknown as Msg
}
