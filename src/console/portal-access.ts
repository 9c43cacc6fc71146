// Who may see the portal: whoever shows a read key, as a bearer or by a session that was opened with it. What it opens is
// the figures of the key's one app.

import type { IncomingHttpHeaders } from 'node:http'
import type { App, AppDirectory, ReadKey } from '../apps/app.ts'
import { hashOfReadKey, isSignedWith, signWith } from '../apps/read-keys.ts'
import { isLoopback } from '../lib/loopback.ts'
import { bearerIn, cookiesIn, hostNameOf, isCrossSite, isOwnOrigin } from './headers.ts'
import { type EndedSessions, newSession, sessionCookie } from './sessions.ts'
import { Tries } from './tries.ts'

const SESSION = /^(\d{1,12})\.([\w-]{22})\.([\w-]{43})\.([\w-]{86})$/

/** Of a request: each may cost a signature of the slow kind. Behind https no other subdomain can set one. */
const MAX_SESSIONS = 2

export interface PortalAccessOptions {
  /** null: none; then the portal is on a loopback address. */
  readonly origin: string | null
  /** null: they are not open yet. */
  readonly apps: () => Pick<AppDirectory, 'findReader'> | null
  readonly ended: EndedSessions
  readonly nowMs: () => number
}

export interface Reader {
  readonly app: App
  readonly key: ReadKey
}

/** Why nothing is shown. `away`: app records were not read yet. */
export type NoReader = 'no key' | 'unknown key' | 'too many wrong keys' | 'away'

export class PortalAccess {
  readonly #options: PortalAccessOptions
  readonly #tries: Tries
  /** In lower case; null: any loopback name. */
  readonly #hostName: string | null
  readonly #cookieName: string
  readonly #isSecure: boolean

  constructor(options: PortalAccessOptions) {
    const { origin, nowMs } = options
    this.#options = options
    this.#tries = new Tries(nowMs)
    this.#hostName = origin === null ? null : hostNameOf(new URL(origin).host)
    this.#isSecure = origin?.startsWith('https:') === true
    this.#cookieName = this.#isSecure ? '__Host-sluice_portal' : 'sluice_portal'
  }

  /** A page of the web can make a name of its own lead here. */
  isOwnHost({ host = '' }: IncomingHttpHeaders): boolean {
    const name = hostNameOf(host)
    return name !== null && (this.#hostName === null ? isLoopback(name) : name === this.#hostName)
  }

  isForeign(headers: IncomingHttpHeaders): boolean {
    return isCrossSite(headers) || !isOwnOrigin(headers, this.#options.origin)
  }

  /** `address`: that of the client, to slow wrong keys and wrong signatures by. */
  read(headers: IncomingHttpHeaders, address: string): Reader | NoReader {
    const bearer = bearerIn(headers)
    if (bearer !== null) return this.#byKey(bearer, address)
    let found: Reader | NoReader | 'signature' = 'no key'
    for (const session of this.#sessionsIn(headers)) {
      found = this.#bySession(session)
      if (typeof found === 'object') return found
      if (found === 'signature' && this.#tries.add(address)) return 'too many wrong keys'
    }
    return found === 'signature' ? 'no key' : found
  }

  /** The cookie that opens a session. */
  open(key: string, address: string): { readonly cookie: string; readonly hash: string } | NoReader {
    const found = this.#byKey(key, address)
    if (typeof found === 'string') return found
    const session = newSession(this.#options.nowMs())
    const value = `${session}.${found.key.hash}.${signWith(key, session)}`
    return { cookie: this.#cookie(value), hash: found.key.hash }
  }

  /** Ends the session: a copy of its cookie opens nothing. Returns the cookie that removes it. */
  signOut(headers: IncomingHttpHeaders): string {
    for (const value of this.#sessionsIn(headers)) {
      const [, endsAt, session] = typeof this.#bySession(value) === 'object' ? (SESSION.exec(value) ?? []) : []
      if (session !== undefined) this.#options.ended.end({ session, endsAt: Number(endsAt) })
    }
    return this.#cookie('')
  }

  /** Whether the key of an open stream still is one of this app. */
  isValid(hash: string, appId: string): boolean {
    const found = this.#find(hash)
    return found === 'away' || (typeof found === 'object' && found.app.appId === appId)
  }

  /** Of a request that a session opened. */
  isSignedOut(headers: IncomingHttpHeaders): boolean {
    if (bearerIn(headers) !== null) return false
    return this.#sessionsIn(headers).every((value) => isNone(this.#bySession(value)))
  }

  #sessionsIn(headers: IncomingHttpHeaders): string[] {
    return cookiesIn(headers, [this.#cookieName]).slice(0, MAX_SESSIONS)
  }

  #byKey(key: string, address: string): Reader | NoReader {
    const hash = hashOfReadKey(key)
    const found = hash === null ? 'unknown key' : this.#find(hash)
    // Where records are not there yet, no key is known to be wrong.
    return found === 'unknown key' && this.#tries.add(address) ? 'too many wrong keys' : found
  }

  /** `signature`: it was not signed with the key that it names. */
  #bySession(value: string): Reader | NoReader | 'signature' {
    const [, endsAt = '', session = '', hash = '', signature = ''] = SESSION.exec(value) ?? []
    if (signature === '' || Number(endsAt) * 1000 <= this.#options.nowMs()) return 'no key'
    if (this.#options.ended.has(session)) return 'no key'
    const found = this.#find(hash)
    if (typeof found === 'string') return found === 'unknown key' ? 'no key' : found
    return isSignedWith(found.key.sessionKey, `${endsAt}.${session}`, signature) ? found : 'signature'
  }

  #find(hash: string): Reader | 'unknown key' | 'away' {
    const app = this.#options.apps()?.findReader(hash) ?? 'unavailable'
    if (app === 'unavailable') return 'away'
    const key = app === 'unknown' ? undefined : app.readKeys.find((one) => one.hash === hash)
    if (key === undefined || app === 'unknown') return 'unknown key'
    return key.endsAtMs !== null && key.endsAtMs <= this.#options.nowMs() ? 'unknown key' : { app, key }
  }

  #cookie(value: string): string {
    return sessionCookie(this.#cookieName, value, this.#isSecure)
  }
}

/** No session, rather than one that cannot be looked up now. */
function isNone(found: Reader | NoReader | 'signature'): boolean {
  return found === 'no key' || found === 'signature'
}
