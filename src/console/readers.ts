// Whose a read key is, which opens the portal: the figures of its one app.

import type { App, AppDirectory, ReadKey } from '../apps/app.ts'
import { hashOfReadKey, isSignedWith, signWith } from '../apps/read-keys.ts'
import type { Lookup } from './access.ts'

/** The key, by its hash, and what only it signs. */
const SIGNATURE = /^([\w-]{43})\.([\w-]{86})$/

export interface Reader {
  readonly app: App
  readonly key: ReadKey
}

export class ReadKeys implements Lookup<Reader> {
  readonly #apps: () => Pick<AppDirectory, 'findReader'> | null
  readonly #nowMs: () => number

  /** `apps`: null: they are not open yet. */
  constructor(apps: () => Pick<AppDirectory, 'findReader'> | null, nowMs: () => number) {
    this.#apps = apps
    this.#nowMs = nowMs
  }

  /** Where records are not there yet, no key is known to be wrong. */
  bySecret(key: string): Reader | 'unknown' | 'away' {
    const hash = hashOfReadKey(key)
    return hash === null ? 'unknown' : this.byHash(hash)
  }

  sign(session: string, key: string): string {
    return `${hashOfReadKey(key)}.${signWith(key, session)}`
  }

  bySignature(session: string, signature: string): Reader | 'unknown' | 'forged' | 'away' {
    const [, hash = '', signed = ''] = SIGNATURE.exec(signature) ?? []
    const found = signed === '' ? 'unknown' : this.byHash(hash)
    if (typeof found === 'string') return found
    return isSignedWith(found.key.sessionKey, session, signed) ? found : 'forged'
  }

  byHash(hash: string): Reader | 'unknown' | 'away' {
    const app = this.#apps()?.findReader(hash) ?? 'unavailable'
    if (app === 'unavailable') return 'away'
    const key = app === 'unknown' ? undefined : app.readKeys.find((one) => one.hash === hash)
    if (key === undefined || app === 'unknown') return 'unknown'
    return key.endsAtMs !== null && key.endsAtMs <= this.#nowMs() ? 'unknown' : { app, key }
  }
}
