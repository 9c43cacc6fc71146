// Who may see the console, and change apps by it: the people who run the service. A token opens it; a second one opens it
// for reading alone. Without one it is there only on a loopback address, and only reads.

import { createHmac } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { isLoopback } from '../lib/loopback.ts'
import { Access, type AccessOptions, type Denied, type Lookup } from './access.ts'
import { bearerIn, isOriginOf, isSame } from './headers.ts'

/** A file of the token is read at most once in this time. */
const TOKEN_READ_MS = 1000

export interface ConsoleAccessOptions extends Pick<AccessOptions, 'ended' | 'nowMs'> {
  /** null: none is set. */
  readonly token: string | null
  /** Opens it for reading alone; null: nothing does. */
  readonly readingToken: string | null
  /** Where the token is in a file: what that holds now, or null where it holds none. */
  readonly readToken?: () => string | null
  /** The address that the admin port listens on. */
  readonly adminHost: string
  /** The public address of the console, such as `https://sluice.example.com`; null: it has none. */
  readonly consoleOrigin: string | null
}

/** What a request may do besides reading. */
interface Authority {
  readonly mayWrite: boolean
}

/** Why a request is refused; null: it is not. `console_off`: the console is not there at all. */
export type Denial = 'console_off' | 'foreign_host' | 'foreign_origin' | 'token_wanted' | 'too_many_tries' | null

export class ConsoleAccess extends Access<Authority> {
  readonly #tokens: Tokens
  readonly #consoleOrigin: string | null
  /** false: no token is set, and the admin port listens on an address that others reach. */
  readonly isOn: boolean

  constructor(options: ConsoleAccessOptions) {
    const { adminHost, consoleOrigin: origin, ended, nowMs } = options
    const tokens = new Tokens(options)
    const host = adminHost.toLowerCase()
    // An address of all interfaces names no host.
    const hosts = host === '0.0.0.0' || host === '::' ? [null] : [null, host]
    // The head of a request has 16 KB, so that it has some hundred sessions at most.
    const cookie = { cookie: 'sluice_console', readsBothNames: true, mostSessions: Number.POSITIVE_INFINITY }
    super({ ...cookie, origin, hosts, ended, nowMs }, tokens)
    this.#tokens = tokens
    this.#consoleOrigin = origin
    this.isOn = tokens.anyone() === null || isLoopback(host)
  }

  get isTokenWanted(): boolean {
    return this.#tokens.anyone() === null
  }

  /** Reads the file of the token, where there is one, at once. */
  reread(): void {
    this.#tokens.reread()
  }

  /**
   * For a page without content, and for the questions of the session: who asks need not show the token. `foreign_host` refuses
   * everything, since a page of the web can make a name of its own lead here.
   */
  screen(headers: IncomingHttpHeaders): Denial {
    if (!this.isOwnHost(headers)) return 'foreign_host'
    if (!this.isOn) return 'console_off'
    return this.isForeign(headers, true) ? 'foreign_origin' : null
  }

  /** For whatever shows content. `address`: that of the client, to slow wrong tokens by. */
  check(headers: IncomingHttpHeaders, address = ''): Denial {
    const refusal = this.screen(headers)
    if (refusal !== null) return refusal
    if (this.isForeign(headers)) return 'foreign_origin'
    const found = this.read(headers, address)
    return typeof found === 'object' ? null : denialOf(found)
  }

  /** How the request shows that it may change something; or why it may not, if `check` lets it read. */
  writer(headers: IncomingHttpHeaders): 'bearer token' | 'session' | 'read_only' | 'foreign_origin' {
    if (!this.mayWrite(headers)) return 'read_only'
    if (bearerIn(headers) !== null) return 'bearer token'
    const { origin, host = '' } = headers
    return origin !== undefined && isOriginOf(origin, host, this.#consoleOrigin) ? 'session' : 'foreign_origin'
  }

  /** Keys of apps are shown to nobody else. */
  mayWrite(headers: IncomingHttpHeaders): boolean {
    const found = this.read(headers)
    return typeof found === 'object' && found.mayWrite
  }
}

export function denialOf(denied: Denied): 'token_wanted' | 'too_many_tries' {
  return denied === 'too_many_tries' ? denied : 'token_wanted'
}

/** A session is signed with the token, so that it holds on every node that has it. */
class Tokens implements Lookup<Authority> {
  readonly #options: ConsoleAccessOptions
  #last: string | null
  #readAtMs: number

  constructor(options: ConsoleAccessOptions) {
    this.#options = options
    this.#last = options.token
    this.#readAtMs = options.nowMs()
  }

  anyone(): Authority | null {
    return this.#token === null && this.#options.readingToken === null ? { mayWrite: false } : null
  }

  reread(): void {
    const { readToken, nowMs } = this.#options
    this.#readAtMs = nowMs()
    // A file that holds no token leaves the last one in force.
    this.#last = readToken?.() ?? this.#last
  }

  bySecret(secret: string): Authority | 'unknown' {
    return this.#find((token) => isSame(secret, token))
  }

  sign(session: string, token: string): string {
    return createHmac('sha256', token).update(`sluice console session ${session}`).digest('base64url')
  }

  /** It cannot be guessed, so that none is forged. */
  bySignature(session: string, signature: string): Authority | 'unknown' {
    return this.#find((token) => isSame(signature, this.sign(session, token)))
  }

  #find(isIt: (token: string) => boolean): Authority | 'unknown' {
    const [token, { readingToken }] = [this.#token, this.#options]
    if (token !== null && isIt(token)) return { mayWrite: true }
    return readingToken !== null && isIt(readingToken) ? { mayWrite: false } : 'unknown'
  }

  get #token(): string | null {
    const { readToken, nowMs } = this.#options
    if (readToken !== undefined && Math.abs(nowMs() - this.#readAtMs) >= TOKEN_READ_MS) this.reread()
    return this.#last
  }
}
