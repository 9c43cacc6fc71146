// Parses REDIS_URL: redis:// or rediss:// (TLS), user, password, host, port and database.

import { readValueFile } from '../lib/value-file.ts'

/** How Redis is reached: settings of the same names. The files are read at each connection, so that new ones need no restart. */
export interface RedisAccess {
  /** As REDIS_URL. */
  readonly url: string
  /** REDIS_URL_FILE: what it holds now, in place of `url`. */
  readonly urlFile: string | null
  /** Authorities that the server's certificate may come from; null: those that Node knows. */
  readonly caFile: string | null
  /** The certificate that this client shows, and its key. */
  readonly certFile: string | null
  readonly keyFile: string | null
}

type Files = Pick<RedisAccess, 'caFile' | 'certFile' | 'keyFile'>

export interface RedisAddress extends RedisPlace, Files {}

interface RedisPlace {
  readonly host: string
  readonly port: number
  readonly username: string | null
  readonly password: string | null
  readonly database: number
  readonly tls: boolean
}

const DEFAULT_PORT = 6379

/** A URL alone names no files. Throws an Error that does not repeat the URL. */
export function toRedisAddress(access: RedisAccess | string): RedisAddress {
  if (typeof access === 'string') return { ...readRedisUrl(access), caFile: null, certFile: null, keyFile: null }
  const { url, urlFile, caFile, certFile, keyFile } = access
  const place = readRedisUrl(urlFile === null ? url : readValueFile(urlFile))
  // A named file makes TLS required.
  const tls = place.tls || [caFile, certFile, keyFile].some((file) => file !== null)
  return { ...place, tls, caFile, certFile, keyFile }
}

/** Throws an Error that does not repeat the URL, which may hold a password. */
export function readRedisUrl(text: string): RedisPlace {
  if (!URL.canParse(text)) throw new Error('REDIS_URL: not a URL')
  const url = new URL(text)
  if (url.protocol !== 'redis:' && url.protocol !== 'rediss:') {
    throw new Error('REDIS_URL: must begin with redis:// or rediss://')
  }
  const database = url.pathname.replace(/^\//, '')
  if (!/^\d{0,5}$/.test(database)) throw new Error('REDIS_URL: the database, after the last /, must be a number')
  return {
    // The client takes an IPv6 address without the brackets of a URL.
    host: decode(url.hostname).replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? DEFAULT_PORT : Number(url.port),
    username: url.username === '' ? null : decode(url.username),
    password: url.password === '' ? null : decode(url.password),
    database: Number(database),
    tls: url.protocol === 'rediss:',
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new Error('REDIS_URL: a % must be followed by two hexadecimal digits')
  }
}
