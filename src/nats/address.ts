// Parses NATS_URL into servers and credentials. Errors and texts for the log never hold a password.

import { hostAndPort } from '../lib/admin-address.ts'
import { errorMessage, StartError } from '../lib/errors.ts'
import { readValueFile } from '../lib/value-file.ts'

const DEFAULT_PORT = 4222

/** How NATS is reached: settings of the same names. The files are read at each connection, so that new ones need no restart. */
export interface NatsAccess {
  /** As NATS_URL. */
  readonly url: string
  /** NATS_URL_FILE: what it holds now, in place of `url`. */
  readonly urlFile: string | null
  /** A credentials file: a JWT and the seed of its nkey. */
  readonly credsFile: string | null
  /** Authorities that the server's certificate may come from; null: those that Node knows. */
  readonly caFile: string | null
  /** The certificate that this client shows, and its key. */
  readonly certFile: string | null
  readonly keyFile: string | null
}

export interface NatsServer {
  readonly host: string
  readonly port: number
}

export interface NatsAddress extends Omit<NatsAccess, 'url' | 'urlFile'> {
  readonly servers: readonly NatsServer[]
  /** TLS is required; otherwise it is used where a server asks for it. */
  readonly tls: boolean
  readonly user: string | null
  readonly password: string | null
  readonly token: string | null
}

type UrlParts = Omit<NatsAddress, keyof NatsAccess>

/** A URL alone names no files. Throws a StartError. */
export function toNatsAddress(access: NatsAccess | string): NatsAddress {
  const none = { urlFile: null, credsFile: null, caFile: null, certFile: null, keyFile: null }
  const { url, urlFile, ...files } = typeof access === 'string' ? { url: access, ...none } : access
  return { ...parseNatsUrl(urlFile === null ? url : readFileOf(urlFile)), ...files }
}

/**
 * `nats://host`, `tls://user:password@host:4222`, `nats://token@host`, or several of them separated by commas. The
 * servers are one cluster, so the first user and password found serve all of them. Throws a StartError.
 */
export function parseNatsUrl(url: string): UrlParts {
  const parts = url
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
  const urls = parts.map((part) => {
    const text = part.includes('://') ? part : `nats://${part}`
    if (!URL.canParse(text)) throw new StartError('NATS_URL: not a URL like nats://host:4222')
    const parsed = new URL(text)
    if (parsed.protocol !== 'nats:' && parsed.protocol !== 'tls:') {
      throw new StartError(`NATS_URL: must begin with nats:// or tls://, not ${parsed.protocol}//`)
    }
    if (parsed.hostname === '') throw new StartError('NATS_URL: names no host')
    return parsed
  })
  if (urls.length === 0) throw new StartError('NATS_URL: names no server')
  const named = urls.find((each) => each.username !== '')
  const name = named === undefined ? null : decode(named.username)
  const password = named === undefined || named.password === '' ? null : decode(named.password)
  return {
    // The brackets around an IPv6 address belong to the URL.
    servers: urls.map((each) => ({
      host: each.hostname.replace(/^\[|\]$/g, ''),
      port: each.port === '' ? DEFAULT_PORT : Number(each.port),
    })),
    tls: urls.some((each) => each.protocol === 'tls:'),
    user: password === null ? null : name,
    password,
    token: password === null ? name : null,
  }
}

/** `host:port`, for the log. */
export function serverText({ host, port }: NatsServer): string {
  return hostAndPort(host, port)
}

function readFileOf(path: string): string {
  try {
    return readValueFile(path)
  } catch (error) {
    throw new StartError(`NATS_URL_FILE: ${errorMessage(error)}`)
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new StartError('NATS_URL: the name or the password has a % that is not followed by two hex digits')
  }
}
