// What the headers of a request say of who sent it, and from which page.

import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

/** null: there is none. */
export function bearerIn({ authorization = '' }: IncomingHttpHeaders): string | null {
  return /^bearer +(\S+) *$/i.exec(authorization)?.[1] ?? null
}

/** A browser sends several of one name where paths or domains differ; each may cost a signature. */
const MAX_OF_A_NAME = 2

/** The first ones of the name. */
export function cookiesIn({ cookie = '' }: IncomingHttpHeaders, name: string): string[] {
  return cookie
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .slice(0, MAX_OF_A_NAME)
    .map((pair) => pair.slice(name.length + 1))
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

/** Without an Origin it may be a script, or a page that is navigated to. `own`: the public address; null: there is none. */
export function isOwnOrigin({ origin, host = '' }: IncomingHttpHeaders, own: string | null): boolean {
  return origin === undefined || isOriginOf(origin, host, own)
}

/** Whether a page of this very address asks. */
export function isOriginOf(origin: string, host: string, own: string | null): boolean {
  if (origin === own) return true
  return /^https?:\/\//i.test(origin) && origin.slice(origin.indexOf('//') + 2).toLowerCase() === host.toLowerCase()
}

/** A browser says by itself which page asks, also for an image or a script, which have no Origin. */
export function isCrossSite({ 'sec-fetch-site': site }: IncomingHttpHeaders): boolean {
  return site === 'cross-site' || site === 'same-site'
}
