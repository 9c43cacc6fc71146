// Who may see the console, and change apps by it: the people who run the service. A token opens it, by cookie or as a
// bearer; a second one opens it for reading alone. Without one it is there only on a loopback address, and only reads. Pages
// of the web are kept out by the headers Host and Origin.

import { createHmac } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { isLoopback } from '../lib/loopback.ts'
import { bearerIn, cookiesIn, hostNameOf, isCrossSite, isOriginOf, isOwnOrigin, isSame } from './headers.ts'
import { type EndedSessions, newSession, sessionCookie } from './sessions.ts'
import { Tries } from './tries.ts'

const COOKIE = 'sluice_console'
const SESSION = /^(\d{1,12})\.([\w-]{22})\.([\w-]{43})$/
/** A file of the token is read at most once in this time. */
const TOKEN_READ_MS = 1000

export interface AccessOptions {
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
  readonly ended: EndedSessions
  readonly nowMs: () => number
}

/** What a request may do. */
type Authority = 'all' | 'read'

/** Why a request is refused; null: it is not. `console_off`: the console is not there at all. */
export type Denial = 'console_off' | 'foreign_host' | 'foreign_origin' | 'token_wanted' | 'too_many_tries' | null

export class Access {
  #lastToken: string | null
  #readAtMs: number
  readonly #readToken: (() => string | null) | null
  readonly #consoleOrigin: string | null
  /** In lower case. Besides these, any loopback name. */
  readonly #ownHosts: readonly (string | null)[]
  readonly #isSecure: boolean
  /** The first one is set. Behind https no other subdomain can set it; sessions that began under the other one last until they end. */
  readonly #cookieNames: readonly string[]
  readonly #nowMs: () => number
  /** false: no token is set, and the admin port listens on an address that others reach. */
  readonly isOn: boolean
  readonly #readingToken: string | null
  readonly #ended: EndedSessions
  readonly #tries: Tries

  constructor({ token, readingToken, readToken, adminHost, consoleOrigin, ended, nowMs }: AccessOptions) {
    this.#readingToken = readingToken
    this.#ended = ended
    this.#tries = new Tries(nowMs)
    this.#lastToken = token
    this.#readToken = readToken ?? null
    this.#readAtMs = nowMs()
    this.#consoleOrigin = consoleOrigin
    this.#isSecure = consoleOrigin?.startsWith('https:') === true
    this.#cookieNames = this.#isSecure ? [`__Host-${COOKIE}`, COOKIE] : [COOKIE]
    const publicHost = consoleOrigin === null ? null : hostNameOf(new URL(consoleOrigin).host)
    // An address of all interfaces names no host.
    this.#ownHosts = [adminHost.toLowerCase(), publicHost].filter((host) => host !== '0.0.0.0' && host !== '::')
    this.#nowMs = nowMs
    this.isOn = token !== null || readingToken !== null || isLoopback(adminHost.toLowerCase())
  }

  /** A file that holds no token leaves the last one in force. */
  get #token(): string | null {
    if (this.#readToken !== null && Math.abs(this.#nowMs() - this.#readAtMs) >= TOKEN_READ_MS) this.reread()
    return this.#lastToken
  }

  /** Reads the file of the token, where there is one, at once. */
  reread(): void {
    this.#readAtMs = this.#nowMs()
    this.#lastToken = this.#readToken?.() ?? this.#lastToken
  }

  get isTokenWanted(): boolean {
    return this.#token !== null || this.#readingToken !== null
  }

  /**
   * For a page without content, and for the questions of the session: who asks need not show the token. `foreign_host` refuses
   * everything, since a page of the web can make a name of its own lead here.
   */
  screen(headers: IncomingHttpHeaders): Denial {
    if (!this.#isOwnHost(headers)) return 'foreign_host'
    if (!this.isOn) return 'console_off'
    return isOwnOrigin(headers, this.#consoleOrigin) ? null : 'foreign_origin'
  }

  /** For whatever shows content. `address`: that of the client, to slow wrong tokens by. */
  check(headers: IncomingHttpHeaders, address = ''): Denial {
    const refusal = this.screen(headers)
    if (refusal !== null) return refusal
    if (isCrossSite(headers)) return 'foreign_origin'
    const authority = this.#authorityOf(headers, address)
    return authority === 'all' || authority === 'read' ? null : authority
  }

  /** How the request shows that it may change something; or why it may not, if `check` lets it read. */
  writer(headers: IncomingHttpHeaders): 'bearer token' | 'session' | 'read_only' | 'foreign_origin' {
    if (this.#authorityOf(headers, '') !== 'all') return 'read_only'
    if (bearerIn(headers) !== null) return 'bearer token'
    const { origin, host = '' } = headers
    return origin !== undefined && isOriginOf(origin, host, this.#consoleOrigin) ? 'session' : 'foreign_origin'
  }

  /** Keys of apps are shown to nobody else. */
  mayWrite(headers: IncomingHttpHeaders): boolean {
    return this.#authorityOf(headers, '') === 'all'
  }

  /** The cookie that opens a session. */
  open(token: string, address = ''): { readonly cookie: string } | 'token_wanted' | 'too_many_tries' {
    const authority = this.#compare(token, address)
    if (authority !== 'all' && authority !== 'read') return authority
    const session = newSession(this.#nowMs())
    return { cookie: this.#cookie(`${session}.${sign(session, token)}`) }
  }

  /** Ends the session: a copy of its cookie opens nothing. Returns the cookie that removes it. */
  signOut(headers: IncomingHttpHeaders): string {
    for (const value of cookiesIn(headers, this.#cookieNames)) {
      const [, endsAt, session] = this.#bySession(value) === null ? [] : (SESSION.exec(value) ?? [])
      if (session !== undefined) this.#ended.end({ session, endsAt: Number(endsAt) })
    }
    return this.#cookie('')
  }

  /** Whether the request shows a token, or none is wanted. */
  isShown(headers: IncomingHttpHeaders, address = ''): boolean {
    const authority = this.#authorityOf(headers, address)
    return authority === 'all' || authority === 'read'
  }

  /** The same of a stream that is open: asked again, it is no try. */
  isStillShown(headers: IncomingHttpHeaders): boolean {
    if (!this.isTokenWanted) return true
    const bearer = bearerIn(headers)
    if (bearer !== null) return this.#authorityBy(bearer) !== null
    return cookiesIn(headers, this.#cookieNames).some((value) => this.#bySession(value) !== null)
  }

  #authorityOf(headers: IncomingHttpHeaders, address: string): Authority | 'token_wanted' | 'too_many_tries' {
    if (!this.isTokenWanted) return 'read'
    const bearer = bearerIn(headers)
    if (bearer !== null) return this.#compare(bearer, address)
    const found = cookiesIn(headers, this.#cookieNames).map((value) => this.#bySession(value))
    return found.find((authority) => authority !== null) ?? 'token_wanted'
  }

  /** A right one is known also while wrong ones come. */
  #compare(token: string, address: string): Authority | 'token_wanted' | 'too_many_tries' {
    const authority = this.#authorityBy(token)
    if (authority !== null) return authority
    if (!this.isTokenWanted) return 'token_wanted'
    return this.#tries.add(address) ? 'too_many_tries' : 'token_wanted'
  }

  #authorityBy(token: string): Authority | null {
    if (this.#token !== null && isSame(token, this.#token)) return 'all'
    return this.#readingToken !== null && isSame(token, this.#readingToken) ? 'read' : null
  }

  /** A value cannot be guessed, so it is no try. It is signed with the token, so that it holds on every node that has it. */
  #bySession(value: string): Authority | null {
    const [, expiresAt = '', session = '', signature = ''] = SESSION.exec(value) ?? []
    if (signature === '' || Number(expiresAt) * 1000 <= this.#nowMs() || this.#ended.has(session)) return null
    const isOf = (token: string | null): boolean =>
      token !== null && isSame(signature, sign(`${expiresAt}.${session}`, token))
    return isOf(this.#token) ? 'all' : isOf(this.#readingToken) ? 'read' : null
  }

  #isOwnHost({ host = '' }: IncomingHttpHeaders): boolean {
    const name = hostNameOf(host)
    return name !== null && (isLoopback(name) || this.#ownHosts.includes(name))
  }

  #cookie(value: string): string {
    return sessionCookie(this.#cookieNames[0], value, this.#isSecure)
  }
}

function sign(session: string, token: string): string {
  return createHmac('sha256', token).update(`sluice console session ${session}`).digest('base64url')
}
