// Parses REDIS_URL: redis:// or rediss:// (TLS), user, password, host, port and database.

export interface RedisAddress {
  readonly host: string
  readonly port: number
  readonly username: string | null
  readonly password: string | null
  readonly database: number
  readonly tls: boolean
}

const DEFAULT_PORT = 6379

/** Throws an Error that does not repeat the URL, which may hold a password. */
export function readRedisUrl(text: string): RedisAddress {
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
