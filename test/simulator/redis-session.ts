// A node's session with the simulated Redis, which replaces `openSession` of src/redis/session.ts. The real circuit
// breaker and the real scripts use it.

import type { RedisClient } from '../../src/redis/link.ts'
import { loadScripts } from '../../src/redis/script.ts'
import { type OpenSession, type RedisSession, tryScript, withTimeout } from '../../src/redis/session.ts'
import type { RedisServer } from './redis-server.ts'
import { type Reply, ReplyError, Status } from './reply.ts'
import { type Path, Wire } from './wire.ts'
import type { Host } from './world.ts'

const OPEN_TIMEOUT_MS = 3000

/** A reply as ioredis returns it. */
type ClientReply = number | string | null | readonly ClientReply[] | Record<string, string>

interface PendingCall {
  readonly resolve: (reply: ClientReply) => void
  readonly reject: (error: Error) => void
}

export function sessionsWith(server: RedisServer, path: Path, host: Host): OpenSession {
  return async ({ onEnd, signal }): Promise<RedisSession> => {
    const connection = new Connection(server, path, host, onEnd)
    const client = connection.client as unknown as RedisClient
    try {
      await withTimeout(connection.opened, OPEN_TIMEOUT_MS, signal, host.timers)
      await withTimeout(loadScripts(client as never), OPEN_TIMEOUT_MS, signal, host.timers)
    } catch (error) {
      connection.drop()
      throw error
    }
    return {
      client,
      isCluster: false,
      knownNodes: [],
      probe: () => tryScript(client),
      drop: () => connection.drop(),
    }
  }
}

class Connection {
  readonly opened: Promise<void>
  readonly client: object
  readonly #server: RedisServer
  readonly #wire: Wire
  readonly #onEnd: () => void
  readonly #pending: PendingCall[] = []
  #isOpened = false
  #isOver = false

  constructor(server: RedisServer, path: Path, host: Host, onEnd: () => void) {
    this.#server = server
    this.#onEnd = onEnd
    let refuse: (error: Error) => void = () => {}
    this.#wire = new Wire(path, host, () => {
      refuse(new Error('connect ECONNREFUSED'))
      this.#end()
    })
    this.opened = new Promise((resolve, reject) => {
      refuse = reject
      this.#wire.toServer(() => {
        if (!server.isUp) this.#wire.cut()
        else
          this.#wire.toHost(() => {
            this.#isOpened = true
            resolve()
          })
      })
      if (path.state === 'cut') this.#wire.cut()
    })
    // Every method of the client sends the command of its name.
    this.client = new Proxy(
      { isCluster: false },
      {
        get: (target, name) => {
          if (name in target || typeof name !== 'string' || name === 'then') return Reflect.get(target, name)
          return (...args: (string | number)[]) => this.send([name.toUpperCase(), ...args.map(String)])
        },
      },
    )
  }

  send(words: readonly string[]): Promise<ClientReply> {
    if (this.#isOver) return Promise.reject(new Error('Connection is closed.'))
    return new Promise((resolve, reject) => {
      this.#pending.push({ resolve, reject })
      this.#wire.toServer(() => {
        this.#server.submit(words, (reply) => this.#wire.toHost(() => this.#answered(words[0], reply)))
      })
    })
  }

  drop(): void {
    this.#wire.close()
    this.#end()
  }

  #answered(name: string, reply: Reply): void {
    const next = this.#pending.shift()
    if (next === undefined) throw new Error('Redis answered without a call')
    if (reply instanceof ReplyError) next.reject(reply)
    else next.resolve(toClientReply(name, reply))
  }

  #end(): void {
    if (this.#isOver) return
    this.#isOver = true
    for (const { reject } of this.#pending.splice(0)) reject(new Error('Connection is closed.'))
    if (this.#isOpened) this.#onEnd()
  }
}

function toClientReply(name: string, reply: Exclude<Reply, ReplyError>): ClientReply {
  if (reply instanceof Status) return reply.text
  if (typeof reply !== 'object' || reply === null) return reply
  if (name === 'HGETALL') {
    const fields: Record<string, string> = {}
    for (let at = 0; at < reply.length; at += 2) fields[reply[at] as string] = reply[at + 1] as string
    return fields
  }
  return reply.map((item) => (item instanceof ReplyError ? item.message : toClientReply('', item)))
}
