// What the headers of a request say of who sent it, and from which page.

import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

/** null: there is none. */
export function bearerIn({ authorization = '' }: IncomingHttpHeaders): string | null {
  return /^bearer +(\S+) *$/i.exec(authorization)?.[1] ?? null
}

/**
 * All of these names, since a browser sends several of one name where paths or domains differ, and another subdomain may have
 * set those that come first. The head of a request has 16 KB, so that they are some hundred at most that may cost a signature.
 */
export function cookiesIn({ cookie = '' }: IncomingHttpHeaders, names: readonly string[]): string[] {
  const pairs = cookie.split(';').map((pair) => pair.trim())
  return names.flatMap((name) =>
    pairs.filter((pair) => pair.startsWith(`${name}=`)).map((pair) => pair.slice(name.length + 1)),
  )
}

/** In a time that does not depend on where they differ. */
export function isSame(one: string, other: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(one), digest(other))
}

/** In lower case, without port and brackets; null: no host. */
export function hostNameOf(header: string): string | null {
  const found = /^(?:\[([0-9a-f:.]+)\]|([a-z\d._-]+))(?::\d{1,5})?$/i.exec(header)
  return found === null ? null : (found[1] ?? found[2]).toLowerCase()
}

/** Whether a page of this very address asks. `own`: the public address; null: there is none. */
export function isOriginOf(origin: string, host: string, own: string | null): boolean {
  if (origin === own) return true
  const [, scheme, its] = /^(https?:)\/\/(.+)$/.exec(origin.toLowerCase()) ?? []
  if (its !== host.toLowerCase()) return false
  if (own === null) return true
  // The Host of http and https is the same.
  const { protocol, host: ownHost } = new URL(own)
  return scheme === protocol || hostNameOf(host) !== hostNameOf(ownHost)
}

/** A browser says by itself which page asks, also for an image or a script, which have no Origin. */
export function isCrossSite({ 'sec-fetch-site': site }: IncomingHttpHeaders): boolean {
  return site === 'cross-site' || site === 'same-site'
}
