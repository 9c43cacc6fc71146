// Who may see the console: the people who run the service. A token opens it, by cookie or as a bearer; without one it is
// there only on a loopback address. Pages of the web are kept out by the headers Host and Origin.

import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { isIPv4 } from 'node:net'
import type { AdminHead } from '../http/admin-routes.ts'

export const SESSION_SECONDS = 43_200
const COOKIE = 'sluice_console'
/** Over all clients. Beyond it no token is looked at, since guesses would not wait for their answers. */
const WRONG_TOKENS_PER_SECOND = 10

export interface AccessOptions {
  /** null: none is set. */
  readonly token: string | null
  /** The address that the admin port listens on. */
  readonly adminHost: string
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
  readonly #adminHost: string
  readonly #nowMs: () => number
  readonly #isOn: boolean
  #wrongTokens = 0
  #wrongSinceMs = 0

  constructor({ token, adminHost, nowMs }: AccessOptions) {
    this.#token = token
    this.#adminHost = adminHost.toLowerCase()
    this.#nowMs = nowMs
    this.#isOn = isConsoleOn(token, adminHost)
  }

  get isOn(): boolean {
    return this.#isOn
  }

  get isTokenWanted(): boolean {
    return this.#token !== null
  }

  /** For a page without content, and for the questions of the session: who asks need not show the token. */
  screen(head: AdminHead): Refusal {
    if (!this.isOn) return 'off'
    if (!isSameOrigin(head)) return 'origin'
    if (this.#isOwnHost(head.host)) return null
    const shown = this.#shown(head)
    return shown === 'right' ? null : shown === 'not looked at' ? 'too many wrong tokens' : 'host'
  }

  /** For whatever shows content. */
  check(head: AdminHead): Refusal {
    if (!this.isOn) return 'off'
    // A browser says by itself which page asks, also for an image or a script, which have no Origin.
    if (!isSameOrigin(head) || head.fetchSite === 'cross-site' || head.fetchSite === 'same-site') return 'origin'
    const isOwnHost = this.#isOwnHost(head.host)
    if (this.#token === null) return isOwnHost ? null : 'host'
    const shown = this.#shown(head)
    if (shown === 'right') return null
    if (shown === 'not looked at') return 'too many wrong tokens'
    return isOwnHost ? 'token' : 'host'
  }

  /** The header line that opens a session, or null where the token is wrong. */
  open(token: string): { readonly cookie: string } | 'wrong' | 'not looked at' {
    const compared = this.#compare(token)
    if (compared !== 'right') return compared
    const expiresAt = Math.floor(this.#nowMs() / 1000) + SESSION_SECONDS
    return { cookie: cookieLine(`${expiresAt}.${this.#sign(expiresAt)}`, SESSION_SECONDS) }
  }

  /** The header line that ends a session. */
  get closing(): string {
    return cookieLine('', 0)
  }

  /** Whether the request shows the token, or none is wanted. */
  isShown(head: AdminHead): boolean {
    return this.#token === null || this.#shown(head) === 'right'
  }

  #shown(head: AdminHead): 'right' | 'wrong' | 'not looked at' | 'none' {
    if (this.#token === null) return 'none'
    const bearer = /^bearer +(\S+) *$/i.exec(head.authorization)?.[1]
    if (bearer !== undefined) return this.#compare(bearer)
    return cookiesIn(head.cookie).some((value) => this.#isSession(value)) ? 'right' : 'none'
  }

  #compare(token: string): 'right' | 'wrong' | 'not looked at' {
    if (this.#token === null) return 'wrong'
    const nowMs = this.#nowMs()
    if (Math.abs(nowMs - this.#wrongSinceMs) >= 1000) {
      this.#wrongSinceMs = nowMs
      this.#wrongTokens = 0
    }
    if (this.#wrongTokens >= WRONG_TOKENS_PER_SECOND) return 'not looked at'
    if (isSame(token, this.#token)) return 'right'
    this.#wrongTokens += 1
    return 'wrong'
  }

  /** A value cannot be guessed, so it is no try. */
  #isSession(value: string): boolean {
    const [, text = '', signature = ''] = /^(\d{1,12})\.([\w-]{43})$/.exec(value) ?? []
    const expiresAt = Number(text)
    return text !== '' && expiresAt * 1000 > this.#nowMs() && isSame(signature, this.#sign(expiresAt))
  }

  /** Made of the token alone, so that the cookie holds on every node behind one address. */
  #sign(expiresAt: number): string {
    return createHmac('sha256', this.#token ?? '')
      .update(`sluice console session ${expiresAt}`)
      .digest('base64url')
  }

  /** An address of all interfaces (0.0.0.0) names no host. */
  #isOwnHost(header: string): boolean {
    const host = hostNameOf(header)
    if (host === null) return false
    return isLoopback(host) || (host === this.#adminHost && host !== '0.0.0.0' && host !== '::')
  }
}

function cookieLine(value: string, maxAgeSeconds: number): string {
  return `\r\nSet-Cookie: ${COOKIE}=${value}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${maxAgeSeconds}`
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

function isSameOrigin({ origin, host }: AdminHead): boolean {
  if (origin === '') return true
  return /^https?:\/\//i.test(origin) && origin.slice(origin.indexOf('//') + 2).toLowerCase() === host.toLowerCase()
}

/** In lower case, without port and brackets; null: no host. */
function hostNameOf(header: string): string | null {
  const found = /^(?:\[([0-9a-f:.]+)\]|([a-z\d._-]+))(?::\d{1,5})?$/i.exec(header)
  return found === null ? null : (found[1] ?? found[2]).toLowerCase()
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
}
