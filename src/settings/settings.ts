// Every setting with its name, default, rule and description, from which parsing, `sluice serve --help` and
// docs/settings.md are made.

import { isIP } from 'node:net'

/** A value, or what is wrong with the text. */
type Parsed<T> = { readonly value: T } | { readonly mistake: string }

export interface Setting<T> {
  /** The value where the variable is unset. */
  readonly fallback: T
  /** The default in words. */
  readonly defaultText: string
  readonly about: string
  parse(text: string): Parsed<T>
}

const MAX_PARSERS = 256
const MAX_PROCESSES = 256
/** The maximum of JetStream. */
const MAX_REPLICAS = 5
const MAX_SHUTDOWN_SECONDS = 3600
const SECRET_CHARACTERS = { min: 16, max: 256 }
/** A smaller ring would be filled by a few of the largest bodies; a larger one gains nothing. */
const RING_MB = { min: 4, max: 1024 }

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
export const DECODERS = ['scanner', 'simdjson'] as const

/** In the order in which help and docs/settings.md show them. */
export const SETTINGS = {
  PORT: wholeNumber(8080, 0, 65_535, 'port for events; 0 lets the system choose'),
  HOST: host('0.0.0.0', '0.0.0.0', 'address that the port for events listens on'),
  SLUICE_ADMIN_PORT: wholeNumber(
    9090,
    0,
    65_535,
    'port for the console, /metrics, /livez and /readyz; 0 lets the system choose',
  ),
  SLUICE_ADMIN_HOST: host(
    null,
    '127.0.0.1, or 0.0.0.0 with REDIS_URL and NATS_URL',
    'address that the admin port listens on; /metrics and the probes ask for no password',
  ),
  SLUICE_CONSOLE_TOKEN: secret(
    'opens the console and its API on the admin port; without it they are there only where SLUICE_ADMIN_HOST is a loopback address',
  ),
  SLUICE_DATA_DIR: text(
    './data',
    './data',
    'folder of the journal, the snapshot and the app file, where REDIS_URL and NATS_URL are unset',
  ),
  SLUICE_APPS_FILE: text(
    null,
    'SLUICE_DATA_DIR/apps.json, or none with NATS_URL',
    'file of the app records; with NATS_URL and this unset, they live in the bucket SLUICE_APPS of NATS',
  ),
  REDIS_URL: url(
    ['redis', 'rediss'],
    { several: false },
    'limits and idempotency keys, shared between nodes; set it together with NATS_URL, or set neither',
  ),
  NATS_URL: url(
    ['nats', 'tls'],
    { several: true },
    'the queue and the app records; several servers of a cluster with commas between; set it together with REDIS_URL, or set neither',
  ),
  NATS_CREDS: text(
    null,
    'none',
    'credentials file for NATS (a JWT and its seed), in place of a user in NATS_URL; read again at each connection, as the three below',
  ),
  NATS_CA: text(null, 'those of Node', "PEM file of the authorities that NATS's certificate may come from; wants TLS"),
  NATS_CERT: text(
    null,
    'none',
    'PEM file of the certificate that sluice shows to NATS; set it together with NATS_KEY; wants TLS',
  ),
  NATS_KEY: text(null, 'none', 'PEM file of the key of NATS_CERT'),
  SLUICE_RING_MB: wholeNumber(
    64,
    RING_MB.min,
    RING_MB.max,
    'memory for the bodies of requests in progress, in MiB; a request that finds no room is answered 503',
  ),
  SLUICE_PARSERS: optional(
    wholeNumber(1, 1, MAX_PARSERS, 'threads that check bodies, in each process'),
    'processor cores less one, at least 1; several processes share the cores',
  ),
  SLUICE_PROCESSES: wholeNumber(
    1,
    1,
    MAX_PROCESSES,
    'front ends on one port, each with its own ring and threads; more than 1 needs REDIS_URL and NATS_URL',
  ),
  SLUICE_DECODER: oneOf(DECODERS, 'scanner', 'what checks bodies; simdjson is an optional package, and much slower'),
  SLUICE_PARTITIONS: wholeNumber(
    16,
    1,
    1024,
    'subjects that NATS messages are spread over; all nodes need the same number, and it must never change',
  ),
  SLUICE_STREAM_KEEP_HOURS: wholeNumber(
    72,
    1,
    1_000_000,
    'hours that the stream keeps each event; used only where sluice creates the stream',
  ),
  SLUICE_STREAM_MAX_GB: optional(
    wholeNumber(
      1,
      1,
      1_000_000,
      'most disk for each copy of the stream, in GiB; when it is full, requests are answered 503; used only where sluice creates the stream',
    ),
    'none',
  ),
  SLUICE_STREAM_REPLICAS: wholeNumber(
    1,
    1,
    MAX_REPLICAS,
    'NATS servers that keep a copy of each event, app record and count; used only where sluice creates the stream or a bucket',
  ),
  SLUICE_JOURNAL_MAX_MB: wholeNumber(
    10_240,
    1,
    1_000_000_000,
    'most disk for the journal, in MiB; when it is full, requests are answered 503',
  ),
  SLUICE_JOURNAL_KEEP_HOURS: optional(
    wholeNumber(1, 1, 1_000_000, 'segments of the journal that are older than this are removed'),
    'none: all are kept',
  ),
  SLUICE_MAX_KEYS: wholeNumber(
    4_000_000,
    1,
    100_000_000,
    'most idempotency keys that a process remembers, about 30 bytes each; beyond it requests with a key are answered 503, or with REDIS_URL only Redis remembers the key',
  ),
  SLUICE_MAX_CONNECTIONS: optional(
    wholeNumber(
      1,
      1,
      10_000_000,
      'most connections on the port for events; shared by all processes; beyond it new ones are closed at once',
    ),
    'the limit of open files (ulimit -n), less 192 and 8 for each thread',
  ),
  SLUICE_SHUTDOWN_SECONDS: wholeNumber(25, 1, MAX_SHUTDOWN_SECONDS, 'longest time from SIGTERM to exit, in seconds'),
  SLUICE_DRAIN_DELAY_SECONDS: wholeNumber(
    0,
    0,
    MAX_SHUTDOWN_SECONDS,
    'seconds between SIGTERM, when /readyz turns 503, and the refusal of new connections',
  ),
  SLUICE_CORS_ORIGINS: origins(
    'web pages that may send events from the browser: their origins (https://app.example.com), with commas between, or * for all',
  ),
  SLUICE_TLS_CERT: text(
    null,
    'none',
    'PEM file of the certificate: TLS on the port for events; set it together with SLUICE_TLS_KEY',
  ),
  SLUICE_TLS_KEY: text(null, 'none', 'PEM file of the key of SLUICE_TLS_CERT'),
  SLUICE_LOG_LEVEL: oneOf(LOG_LEVELS, 'info', 'lowest level that is logged'),
} as const

export type SettingName = keyof typeof SETTINGS
export const SETTING_NAMES = Object.keys(SETTINGS) as readonly SettingName[]

function wholeNumber(fallback: number, min: number, max: number, about: string): Setting<number> {
  const wanted = `must be a whole number from ${min} to ${max}`
  return {
    fallback,
    defaultText: String(fallback),
    about,
    parse(text) {
      const value = Number(text)
      const fits = /^[0-9]+$/.test(text) && value >= min && value <= max
      return fits ? { value } : { mistake: wanted }
    },
  }
}

function optional<T>(setting: Setting<T>, defaultText: string): Setting<T | null> {
  return { ...setting, fallback: null, defaultText }
}

function text<F extends string | null>(fallback: F, defaultText: string, about: string): Setting<string | F> {
  return { fallback, defaultText, about, parse: (given) => ({ value: given }) }
}

function host<F extends string | null>(fallback: F, defaultText: string, about: string): Setting<string | F> {
  return {
    fallback,
    defaultText,
    about,
    parse(given) {
      const fits = isIP(given) !== 0 || /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/.test(given)
      return fits ? { value: given } : { mistake: 'must be an IP address or a host name, without port or brackets' }
    },
  }
}

function oneOf<const V extends string>(allowed: readonly V[], fallback: V, about: string): Setting<V> {
  return {
    fallback,
    defaultText: fallback,
    about: `${about}: ${allowed.join(', ')}`,
    parse(given) {
      const value = allowed.find((candidate) => candidate === given)
      return value === undefined ? { mistake: `must be one of ${allowed.join(', ')}` } : { value }
    },
  }
}

/** The mistake does not quote the text. */
function secret(about: string): Setting<string | null> {
  const { min, max } = SECRET_CHARACTERS
  return {
    fallback: null,
    defaultText: 'none',
    about,
    parse(given) {
      // What a header can carry as it is.
      return given.length >= min && given.length <= max && /^[\x21-\x7e]+$/.test(given)
        ? { value: given }
        : { mistake: `must have ${min} to ${max} characters of ASCII, without spaces` }
    },
  }
}

/** As browsers write them in the header Origin, which is compared byte by byte. */
function origins(about: string): Setting<readonly string[] | '*' | null> {
  const toOrigin = (given: string): string | null => {
    if (!/^[a-z][a-z0-9+.-]*:\/\/[^\s*/?#@\\]+$/i.test(given) || !URL.canParse(given)) return null
    const { origin, protocol, host } = new URL(given)
    // The origin of a scheme that is not the web's own, as apps in a web view have, is `null` here, but not in Origin.
    return origin === 'null' ? `${protocol}//${host}`.toLowerCase() : origin
  }
  return {
    fallback: null,
    defaultText: 'none',
    about,
    parse(given) {
      if (given === '*') return { value: given }
      const found = given.split(',').map((one) => toOrigin(one.trim()))
      return found.every((origin) => origin !== null)
        ? { value: found }
        : {
            mistake: 'must be * alone, or origins such as https://app.example.com, without a path, with commas between',
          }
    },
  }
}

/** The mistake does not quote the text, since a URL may hold a password. */
function url(schemes: readonly string[], { several }: { several: boolean }, about: string): Setting<string | null> {
  const shown = schemes.map((scheme) => `${scheme}://`).join(' or ')
  const fits = (given: string): boolean => {
    const at = schemes.find((scheme) => given.startsWith(`${scheme}://`))
    return at !== undefined && URL.canParse(given) && new URL(given).hostname !== ''
  }
  return {
    fallback: null,
    defaultText: 'none',
    about,
    parse(given) {
      return (several ? given.split(',') : [given]).every(fits)
        ? { value: given }
        : { mistake: `must be a URL that begins with ${shown}` }
    },
  }
}
