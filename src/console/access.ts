// Who may see the console: the people who run the service. A token opens it, by cookie or as a bearer; without one it is
// there only on a loopback address. Pages of the web are kept out by the headers Host and Origin.

import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { isIPv4 } from 'node:net'

export const SESSION_SECONDS = 43_200
const COOKIE = 'sluice_console'
/** Over all clients. */
const WRONG_TOKENS_PER_SECOND = 10

export interface AccessOptions {
  /** null: none is set. */
  readonly token: string | null
  /** The address that the admin port listens on. */
  readonly adminHost: string
  /** The public address of the console, such as `https://sluice.example.com`; null: it has none. */
  readonly consoleOrigin: string | null
  readonly nowMs: () => number
}

/** Why a request is refused; null: it is not. `off`: the console is not there at all. */
export type Refusal = 'off' | 'host' | 'origin' | 'token' | 'too many wrong tokens' | null

/** false: no token is set, and the admin port listens on an address that others reach. */
export function isConsoleOn(token: string | null, adminHost: string): boolean {
  return token !== null || isLoopback(adminHost.toLowerCase())
}

export class Access {
  readonly #token: string | null
  readonly #consoleOrigin: string | null
  /** In lower case. Besides these, any loopback name. */
  readonly #ownHosts: readonly (string | null)[]
  readonly #nowMs: () => number
  readonly #isOn: boolean
  #wrongTokens = 0
  #wrongSinceMs = 0
  /** Those that were ended, by the second at which they would end: at most one for each of twelve hours. */
  readonly #signedOut = new Set<number>()

  constructor({ token, adminHost, consoleOrigin, nowMs }: AccessOptions) {
    this.#token = token
    this.#consoleOrigin = consoleOrigin
    const publicHost = consoleOrigin === null ? null : hostNameOf(new URL(consoleOrigin).host)
    // An address of all interfaces names no host.
    this.#ownHosts = [adminHost.toLowerCase(), publicHost].filter((host) => host !== '0.0.0.0' && host !== '::')
    this.#nowMs = nowMs
    this.#isOn = isConsoleOn(token, adminHost)
  }

  get isTokenWanted(): boolean {
    return this.#token !== null
  }

  /**
   * For a page without content, and for the questions of the session: who asks need not show the token. `host` refuses
   * everything, since a page of the web can make a name of its own lead here.
   */
  screen(headers: IncomingHttpHeaders): Refusal {
    if (!this.#isOwnHost(headers)) return 'host'
    if (!this.#isOn) return 'off'
    return this.#isOwnOrigin(headers) ? null : 'origin'
  }

  /** For whatever shows content. */
  check(headers: IncomingHttpHeaders): Refusal {
    const refusal = this.screen(headers)
    if (refusal !== null) return refusal
    // A browser says by itself which page asks, also for an image or a script, which have no Origin.
    const site = headers['sec-fetch-site']
    if (site === 'cross-site' || site === 'same-site') return 'origin'
    if (this.#token === null) return null
    return this.#shown(headers)
  }

  /** The cookie that opens a session. */
  open(token: string): { readonly cookie: string } | 'token' | 'too many wrong tokens' {
    const refusal = this.#compare(token)
    if (refusal !== null) return refusal
    let expiresAt = Math.floor(this.#nowMs() / 1000) + SESSION_SECONDS
    // Who signs in again within a second gets another session.
    while (this.#signedOut.has(expiresAt)) expiresAt -= 1
    return { cookie: this.#cookie(`${expiresAt}.${this.#sign(expiresAt)}`, SESSION_SECONDS) }
  }

  /** Ends the session on this node: a copy of its cookie opens nothing. Returns the cookie that removes it. */
  signOut({ cookie = '' }: IncomingHttpHeaders): string {
    for (const end of this.#signedOut) if (end * 1000 <= this.#nowMs()) this.#signedOut.delete(end)
    for (const value of cookiesIn(cookie)) if (this.#isSession(value)) this.#signedOut.add(Number.parseInt(value, 10))
    return this.#cookie('', 0)
  }

  /** Whether the request shows the token, or none is wanted. */
  isShown(headers: IncomingHttpHeaders): boolean {
    return this.#token === null || this.#shown(headers) === null
  }

  #shown({ authorization = '', cookie = '' }: IncomingHttpHeaders): 'token' | 'too many wrong tokens' | null {
    const bearer = /^bearer +(\S+) *$/i.exec(authorization)?.[1]
    if (bearer !== undefined) return this.#compare(bearer)
    return cookiesIn(cookie).some((value) => this.#isSession(value)) ? null : 'token'
  }

  /** null: it is right, which is said also while wrong ones come. */
  #compare(token: string): 'token' | 'too many wrong tokens' | null {
    if (this.#token === null) return 'token'
    if (isSame(token, this.#token)) return null
    const nowMs = this.#nowMs()
    if (Math.abs(nowMs - this.#wrongSinceMs) >= 1000) {
      this.#wrongSinceMs = nowMs
      this.#wrongTokens = 0
    }
    if (this.#wrongTokens >= WRONG_TOKENS_PER_SECOND) return 'too many wrong tokens'
    this.#wrongTokens += 1
    return 'token'
  }

  /** A value cannot be guessed, so it is no try. */
  #isSession(value: string): boolean {
    const [, text = '', signature = ''] = /^(\d{1,12})\.([\w-]{43})$/.exec(value) ?? []
    const expiresAt = Number(text)
    const isOpen = expiresAt * 1000 > this.#nowMs() && !this.#signedOut.has(expiresAt)
    return text !== '' && isOpen && isSame(signature, this.#sign(expiresAt))
  }

  /** Made of the token alone, so that the cookie holds on every node behind one address. */
  #sign(expiresAt: number): string {
    return createHmac('sha256', this.#token ?? '')
      .update(`sluice console session ${expiresAt}`)
      .digest('base64url')
  }

  #isOwnHost({ host = '' }: IncomingHttpHeaders): boolean {
    const name = hostNameOf(host)
    return name !== null && (isLoopback(name) || this.#ownHosts.includes(name))
  }

  #cookie(value: string, maxAgeSeconds: number): string {
    const secure = this.#consoleOrigin?.startsWith('https:') ? '; Secure' : ''
    return `${COOKIE}=${value}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${maxAgeSeconds}${secure}`
  }

  #isOwnOrigin({ origin, host = '' }: IncomingHttpHeaders): boolean {
    if (origin === undefined || origin === this.#consoleOrigin) return true
    return /^https?:\/\//i.test(origin) && origin.slice(origin.indexOf('//') + 2).toLowerCase() === host.toLowerCase()
  }
}

/** A browser sends several of one name where paths or domains differ. */
function cookiesIn(header: string): string[] {
  return header
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${COOKIE}=`))
    .map((pair) => pair.slice(COOKIE.length + 1))
}

/** In a time that does not depend on where they differ. */
function isSame(one: string, other: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(one), digest(other))
}

/** In lower case, without port and brackets; null: no host. */
function hostNameOf(header: string): string | null {
  const found = /^(?:\[([0-9a-f:.]+)\]|([a-z\d._-]+))(?::\d{1,5})?$/i.exec(header)
  return found === null ? null : (found[1] ?? found[2]).toLowerCase()
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
}
