// Connections to NATS. A broken one is dropped together with its buffer. The client's own reconnect would keep messages
// published meanwhile, and send them after their records were already refused.

import { connect as connectSocket, type Socket } from 'node:net'
import {
  type ConnectionOptions,
  connect,
  credsAuthenticator,
  errors,
  type NatsConnection,
  type NatsConnectionImpl,
  type TlsOptions,
} from '@nats-io/transport-node'
import { errorCode, errorMessage, UnavailableError } from '../lib/errors.ts'
import { sleep, type Timers } from '../lib/timers.ts'
import { readSettingFile } from '../lib/value-file.ts'
import { type NatsAccess, type NatsAddress, type NatsServer, serverText, toNatsAddress } from './address.ts'
import { guardConnections, MAX_LINE_BYTES, quoted } from './guard.ts'

/** For a server's first line. A frozen server accepts the connection and sends nothing. */
const GREETING_TIMEOUT_MS = 2000
const HANDSHAKE_TIMEOUT_MS = 5000
/** Between two tries, with jitter, so that the nodes do not all reconnect at the same moment. */
const RETRY_MIN_MS = 100
const RETRY_MAX_MS = 250
/** A server that leaves two pings in a row unanswered is given up, about 4 s after it froze. */
const PING_INTERVAL_MS = 1500
const MAX_PINGS_OUT = 2

/** A server that is cut off from the others stays connected and answers pings, but nothing of JetStream. */
const PROBE_INTERVAL_MS = 2500
const PROBE_TIMEOUT_MS = 2000
const LEAVE_AFTER_MS = 10_000
const PROBE_SUBJECT = '$JS.API.INFO'
/** JetStream's code where the server knows of no leader. */
const UNAVAILABLE_CODE = 10_008

const NO_ANSWER = 'no answer'
/** A JWT between two lines of dashes, and a seed between two more. */
const IS_CREDENTIALS = /---\s*\n\s*eyJ[\w.-]+\s*\n\s*---[^]*---\s*\n\s*S[A-Z2-7]{50,}\s*\n\s*---/

/** Connects for one command. Rejects within some seconds with a sentence that names each server that was tried. */
export async function connectNats(access: NatsAccess | string): Promise<NatsConnection> {
  guardConnections()
  const address = toNatsAddress(access)
  const reasons: string[] = []
  for (const server of address.servers) {
    try {
      return await dial(address, server, new AbortController().signal)
    } catch (error) {
      reasons.push(`${serverText(server)}: ${describeFault(error)}`)
    }
  }
  throw new UnavailableError(`NATS cannot be reached (${reasons.join('; ')})`)
}

/** Opens one connection. Rejects with the reason, or when `signal` is aborted. */
export type Dial = (address: NatsAddress, server: NatsServer, signal: AbortSignal) => Promise<NatsConnection>

export interface LinkOptions {
  readonly nats: NatsAccess | string
  readonly timers: Timers
  /** Default: over a socket. */
  readonly dial?: Dial
  /** A number from 0 to 1 (exclusive), for the jitter. */
  readonly random?: () => number
  /** Called in the same turn in which the connection became usable. */
  readonly onUp: (connection: NatsConnection) => void
  /** The connection broke, or a try failed. Called for every try; `reason` is safe to log. */
  readonly onDown: (reason: string) => void
  /** The server reported an error, and the connection stays. */
  readonly onComplaint?: (message: string) => void
}

/** Keeps one connection up until `stop`, reconnecting when it breaks. */
export class NatsLink {
  /** The connection in use; null while there is none. */
  connection: NatsConnection | null = null
  readonly #options: LinkOptions
  #address: NatsAddress
  readonly #random: () => number
  readonly #dial: Dial
  readonly #stopping = new AbortController()
  readonly #ended: Promise<void>
  #serverAt = 0

  /** Throws a StartError where the URL is not valid, or the client library cannot be guarded. */
  constructor(options: LinkOptions) {
    guardConnections()
    this.#options = options
    this.#address = toNatsAddress(options.nats)
    this.#random = options.random ?? Math.random
    this.#dial = options.dial ?? dial
    this.#serverAt = Math.floor(this.#random() * this.#address.servers.length)
    this.#ended = this.#keepUp()
  }

  /** Closes at once, without sending the buffer. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.connection?.close()
    await this.#ended
  }

  async #keepUp(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      let reason: string
      try {
        this.#address = toNatsAddress(this.#options.nats)
        const { servers } = this.#address
        const connection = await this.#dial(this.#address, servers[this.#serverAt % servers.length], signal)
        reason = await this.#use(connection)
      } catch (error) {
        reason = describeFault(error)
      }
      if (signal.aborted) return
      this.#serverAt = (this.#serverAt + 1) % this.#address.servers.length
      this.#options.onDown(reason)
      const pauseMs = RETRY_MIN_MS + this.#random() * (RETRY_MAX_MS - RETRY_MIN_MS)
      await sleep(this.#options.timers, pauseMs, signal)
    }
  }

  /** Resolves with why the connection ended. */
  async #use(connection: NatsConnection): Promise<string> {
    if (this.#stopping.signal.aborted) {
      await connection.close()
      return 'stopping'
    }
    let given: string | null = null
    void this.#watch(connection, () => (given = NO_ANSWER))
    this.connection = connection
    this.#options.onUp(connection)
    if (this.#address.servers.length > 1) {
      void this.#leaveIfSilent(connection, () => {
        given = `${connection.getServer()} has answered nothing of JetStream for ${LEAVE_AFTER_MS / 1000} s, trying another server`
      })
    }
    const error = await connection.closed()
    this.connection = null
    if (given !== null) return given
    return error instanceof Error ? describeFault(error) : 'the connection was closed'
  }

  async #leaveIfSilent(connection: NatsConnection, onLeave: () => void): Promise<void> {
    const { timers } = this.#options
    let answeredAtMs = timers.monotonicMs()
    for (;;) {
      await sleep(timers, PROBE_INTERVAL_MS, this.#stopping.signal)
      if (this.connection !== connection || this.#stopping.signal.aborted) return
      if (await answersJetStream(connection)) answeredAtMs = timers.monotonicMs()
      else if (timers.monotonicMs() - answeredAtMs >= LEAVE_AFTER_MS) break
    }
    onLeave()
    await connection.close()
  }

  async #watch(connection: NatsConnection, onStale: () => void): Promise<void> {
    for await (const status of connection.status()) {
      if (status.type === 'staleConnection') {
        onStale()
        // The client would first wait until its buffer is written, which a frozen server never allows.
        await connection.close()
      } else if (status.type === 'error') {
        this.#options.onComplaint?.(quoted(status.error.message))
      }
    }
  }
}

/** A server that refuses the question answers. */
async function answersJetStream(connection: NatsConnection): Promise<boolean> {
  try {
    const answer = await connection.request(PROBE_SUBJECT, '', { timeout: PROBE_TIMEOUT_MS })
    return answer.json<{ error?: { err_code?: number } } | null>()?.error?.err_code !== UNAVAILABLE_CODE
  } catch (error) {
    return error instanceof errors.PermissionViolationError
  }
}

/** false as soon as the socket is known to be gone, which is before `closed()` resolves. */
export function isConnected(connection: NatsConnection): boolean {
  return (connection as NatsConnectionImpl).protocol.connected && !connection.isClosed()
}

/**
 * Sends whole protocol lines, in a write of their own. The client's `publish` would check, format and join each message
 * from four pieces, which takes about a third of a message's CPU time. The bytes may be read until `hasSentAll`.
 */
export function sendRaw(connection: NatsConnection, bytes: Uint8Array): void {
  const { outbound, transport } = (connection as NatsConnectionImpl).protocol
  outbound.fill(bytes)
  // The client would wait for the end of the turn, and join what has gathered by then, which copies it.
  transport.send(outbound.drain())
}

/** Whether the kernel has a copy of all bytes that were sent over the connection. */
export function hasSentAll(connection: NatsConnection): boolean {
  const { outbound, transport } = (connection as NatsConnectionImpl).protocol
  const { socket } = transport as { readonly socket?: Socket }
  return socket !== undefined && socket.writableLength === 0 && outbound.length() === 0
}

/** A short text that is safe to log: the texts of Node and of the client hold no password. */
export function describeFault(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  const code = errorCode(cause) ?? errorCode(error)
  if (code === 'ECONNREFUSED') return 'connection refused'
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'the host name is not known'
  if (code === 'ECONNRESET' || code === 'EPIPE') return 'the connection was cut'
  const message = errorMessage(error)
  if (message === 'timeout') return NO_ANSWER
  return message === '' ? 'the connection was cut' : quoted(message)
}

async function dial(address: NatsAddress, server: NatsServer, signal: AbortSignal): Promise<NatsConnection> {
  const tls = await tlsOf(address)
  // The client does not close the socket of a try that timed out, so a frozen server would collect one for each try.
  const isGreeted = await awaitGreeting(server, signal, tls === null ? 'must' : 'may')
  const connecting = connect({
    servers: [serverText(server)],
    name: 'sluice',
    reconnect: false,
    timeout: HANDSHAKE_TIMEOUT_MS,
    pingInterval: PING_INTERVAL_MS,
    maxPingOut: MAX_PINGS_OUT,
    ignoreClusterUpdates: true,
    ...(await proofOf(address)),
    // A server with `handshake_first` says nothing before TLS.
    ...(tls === null ? {} : { tls: { ...tls, handshakeFirst: !isGreeted } }),
  })
  return await untilAborted(connecting, signal)
}

/** Who this client is. */
async function proofOf({ credsFile, user, password, token }: NatsAddress): Promise<ConnectionOptions> {
  if (credsFile !== null) {
    const text = await readSettingFile(credsFile)
    // The client would fail in the middle of its handshake, and wait for its end.
    if (!IS_CREDENTIALS.test(text.toString())) throw new Error('NATS_CREDS: the file holds no JWT and seed')
    return { authenticator: credsAuthenticator(text) }
  }
  return {
    ...(user === null ? {} : { user }),
    ...(password === null ? {} : { pass: password }),
    ...(token === null ? {} : { token }),
  }
}

/** null: not wanted. A named file makes TLS required. The files are read at each connection. */
async function tlsOf({ tls, caFile, certFile, keyFile }: NatsAddress): Promise<TlsOptions | null> {
  const named = Object.entries({ ca: caFile, cert: certFile, key: keyFile })
  const parts: Record<string, string> = {}
  for (const [name, file] of named) if (file !== null) parts[name] = (await readSettingFile(file)).toString()
  return tls || Object.keys(parts).length > 0 ? parts : null
}

/** Rejects when `signal` is aborted, and closes a connection that opens after that. */
function untilAborted(connecting: Promise<NatsConnection>, signal: AbortSignal): Promise<NatsConnection> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      reject(new Error('stopping'))
      connecting.then((connection) => connection.close()).catch(() => {})
    }
    signal.addEventListener('abort', onAbort)
    connecting.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
    if (signal.aborted) onAbort()
  })
}

/**
 * Resolves with true once the server has sent its first line. Where it only may, with false if it is silent, or has cut off
 * a client that is: by default one that waits for a TLS handshake does so after two seconds.
 */
function awaitGreeting({ host, port }: NatsServer, signal: AbortSignal, greeting: 'must' | 'may'): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket: Socket = connectSocket({ host, port })
    const end = (error: Error | null): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      // A destroyed socket may still report an error.
      socket.removeAllListeners().on('error', () => {})
      socket.destroy()
      if (error === null) resolve(true)
      else reject(error)
    }
    const onAbort = (): void => end(new Error('stopping'))
    const silent = (reason: string): void => {
      if (greeting === 'may') resolve(false)
      end(new Error(reason))
    }
    const timer = setTimeout(() => silent(NO_ANSWER), GREETING_TIMEOUT_MS)
    signal.addEventListener('abort', onAbort)
    let greetingBytes = 0
    socket.on('data', (bytes) => {
      greetingBytes += bytes.length
      // The client would read on and on for the end of the line.
      if (bytes.includes('\n')) end(null)
      else if (greetingBytes > MAX_LINE_BYTES) end(new Error('the server greets with a line without an end'))
    })
    socket.once('error', end)
    socket.once('close', () => silent('the connection was cut'))
    if (signal.aborted) onAbort()
  })
}
