// Who may see a face of the service: whoever shows a secret that it knows, as a bearer, or by a session that was opened with
// it. Pages of the web are kept out by the headers Host and Origin.

import type { IncomingHttpHeaders } from 'node:http'
import { isLoopback } from '../lib/loopback.ts'
import { bearerIn, cookiesIn, hostNameOf, isCrossSite, isOriginOf } from './headers.ts'
import { type EndedSessions, newSession, SESSION_SECONDS } from './sessions.ts'
import { Tries } from './tries.ts'

/** When it ends, its name, and what signs both. */
const SESSION = /^(\d{1,12})\.([\w-]{22})\.([\w.-]{43,130})$/

/** Whose a secret is. `away`: that cannot be known now. */
export interface Lookup<Who extends object> {
  /** Whoever shows no secret; null: one is wanted. */
  anyone?(): Who | null
  bySecret(secret: string): Who | 'unknown' | 'away'
  sign(session: string, secret: string): string
  /** `forged`: it was not signed with the secret that it names. */
  bySignature(session: string, signature: string): Who | 'unknown' | 'forged' | 'away'
}

/** Why nothing is shown. `none`: no secret was shown, or a session that is over. */
export type Denied = 'none' | 'unknown' | 'too_many_tries' | 'away'

export interface AccessOptions {
  /** Behind https it is `__Host-` and this, which no other subdomain can set. */
  readonly cookie: string
  /** Sessions that began under the other name last until they end. */
  readonly readsBothNames: boolean
  /** Of a request: each may cost a signature. */
  readonly mostSessions: number
  /** The public address, such as `https://sluice.example.com`; null: it has none. */
  readonly origin: string | null
  /** Beside that of the public address, in lower case. null: any loopback name. */
  readonly hosts: readonly (string | null)[]
  readonly ended: EndedSessions
  readonly nowMs: () => number
}

export class Access<Who extends object> {
  readonly #options: AccessOptions
  readonly #lookup: Lookup<Who>
  readonly #tries: Tries
  readonly #hosts: readonly (string | null)[]
  readonly #isSecure: boolean
  /** The first one is set. */
  readonly #cookieNames: readonly string[]

  constructor(options: AccessOptions, lookup: Lookup<Who>) {
    const { cookie, readsBothNames, origin, hosts, nowMs } = options
    this.#options = options
    this.#lookup = lookup
    this.#tries = new Tries(nowMs)
    this.#hosts = origin === null ? hosts : [...hosts, hostNameOf(new URL(origin).host)]
    this.#isSecure = origin?.startsWith('https:') === true
    const names = this.#isSecure ? [`__Host-${cookie}`, cookie] : [cookie]
    this.#cookieNames = readsBothNames ? names : names.slice(0, 1)
  }

  /** A page of the web can make a name of its own lead here. */
  isOwnHost({ host = '' }: IncomingHttpHeaders): boolean {
    const name = hostNameOf(host)
    return name !== null && this.#hosts.some((own) => (own === null ? isLoopback(name) : own === name))
  }

  /** Whether another page of the web asks; `mayLead`: it may lead here. */
  isForeign(headers: IncomingHttpHeaders, mayLead = false): boolean {
    const { origin, host = '' } = headers
    // Without an Origin it may be a script, or a page that is navigated to.
    const isOwn = origin === undefined || isOriginOf(origin, host, this.#options.origin)
    return !isOwn || (!mayLead && isCrossSite(headers))
  }

  /** `address`: that of the client, to slow what is wrong by. What is right is known also meanwhile. */
  read(headers: IncomingHttpHeaders, address = ''): Who | Denied {
    const anyone = this.#lookup.anyone?.() ?? null
    if (anyone !== null) return anyone
    const bearer = bearerIn(headers)
    if (bearer !== null) return this.#bySecret(bearer, address)
    let denied: Denied = 'none'
    for (const value of this.#sessionsIn(headers)) {
      const found = this.#bySession(value)
      if (typeof found === 'object') return found
      if (found === 'forged' && this.#tries.add(address)) return 'too_many_tries'
      denied = found === 'away' ? found : 'none'
    }
    return denied
  }

  /** The cookie that opens a session. */
  open(secret: string, address = ''): { readonly cookie: string; readonly who: Who } | Denied {
    const who = this.#bySecret(secret, address)
    if (typeof who === 'string') return who
    const session = newSession(this.#options.nowMs())
    return { cookie: this.#cookie(`${session}.${this.#lookup.sign(session, secret)}`), who }
  }

  /** Ends the session: a copy of its cookie opens nothing. Returns the cookie that removes it. */
  signOut(headers: IncomingHttpHeaders): string {
    for (const value of this.#sessionsIn(headers)) {
      const [, endsAt, session] = typeof this.#bySession(value) === 'object' ? (SESSION.exec(value) ?? []) : []
      if (session !== undefined) this.#options.ended.end({ session, endsAt: Number(endsAt) })
    }
    return this.#cookie('')
  }

  /** Of a stream that is open: asked again, it is no try. */
  isStillShown(headers: IncomingHttpHeaders): boolean {
    const bearer = bearerIn(headers)
    if ((this.#lookup.anyone?.() ?? null) !== null) return true
    if (bearer !== null) return this.#lookup.bySecret(bearer) !== 'unknown'
    return this.#sessionsIn(headers).some((value) => {
      const found = this.#bySession(value)
      return typeof found === 'object' || found === 'away'
    })
  }

  #sessionsIn(headers: IncomingHttpHeaders): string[] {
    return cookiesIn(headers, this.#cookieNames).slice(0, this.#options.mostSessions)
  }

  #bySecret(secret: string, address: string): Who | Denied {
    const found = this.#lookup.bySecret(secret)
    return found === 'unknown' && this.#tries.add(address) ? 'too_many_tries' : found
  }

  #bySession(value: string): Who | 'unknown' | 'forged' | 'away' {
    const [, endsAt = '', session = '', signature = ''] = SESSION.exec(value) ?? []
    if (signature === '' || Number(endsAt) * 1000 <= this.#options.nowMs()) return 'unknown'
    return this.#options.ended.has(session) ? 'unknown' : this.#lookup.bySignature(`${endsAt}.${session}`, signature)
  }

  /** An empty value removes the one that the browser has. */
  #cookie(value: string): string {
    const seconds = value === '' ? 0 : SESSION_SECONDS
    const name = this.#cookieNames[0]
    return `${name}=${value}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${seconds}${this.#isSecure ? '; Secure' : ''}`
  }
}
