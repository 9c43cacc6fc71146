// Every setting with its name, default, rule and description, from which parsing, `sluice serve --help` and
// docs/settings.md are made.

import { isIP } from 'node:net'
import { isAddressRange } from '../lib/address-ranges.ts'
import { toOrigin } from '../lib/origin.ts'

export interface Setting<T> {
  /** The value where the variable is unset. */
  readonly fallback: T
  /** The default in words. */
  readonly defaultText: string
  readonly about: string
  /** What is wrong with a text that does not fit. It does not quote the text. */
  readonly mistake: string
  /** null: the text does not fit. */
  read(text: string): T | null
}

const MAX_PARSERS = 256
const MAX_PROCESSES = 256
/** The maximum of JetStream. */
const MAX_REPLICAS = 5
const MAX_SHUTDOWN_SECONDS = 3600
const SECRET_CHARACTERS = { min: 16, max: 256 }
/** A smaller ring would be filled by a few of the largest bodies; a larger one gains nothing. */
const RING_MB = { min: 4, max: 1024 }

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
const DECODERS = ['scanner', 'simdjson'] as const

/** In the order in which help and docs/settings.md show them. */
export const SETTINGS = {
  PORT: wholeNumber({ fallback: 8080, min: 0, max: 65_535 }, 'port for events; 0 lets the system choose'),
  HOST: host('::', 'every address (::, IPv6 and IPv4)', 'address that the port for events listens on'),
  SLUICE_HTTP_ENGINE: oneOf(
    ['auto', 'uws', 'node'],
    'auto',
    "what reads HTTP on the port for events: uws is uWebSockets.js; node is Node's own server, which runs everywhere and carries about seven tenths as much; auto is the first where it loads, else the second",
  ),
  SLUICE_ADMIN_PORT: wholeNumber(
    { fallback: 9090, min: 0, max: 65_535 },
    'port for the console, /metrics, /livez and /readyz; 0 lets the system choose',
  ),
  SLUICE_ADMIN_HOST: host(
    null,
    '127.0.0.1, or every address (::) with REDIS_URL and NATS_URL',
    'address that the admin port listens on; /metrics and the probes ask for no password',
  ),
  SLUICE_CONSOLE_TOKEN: secret(
    'opens the console and its API on the admin port; without it they are there only where SLUICE_ADMIN_HOST is a loopback address',
  ),
  SLUICE_CONSOLE_TOKEN_FILE: file('file that holds SLUICE_CONSOLE_TOKEN, in place of it; read again at each login'),
  SLUICE_CONSOLE_ORIGIN: webOrigin(
    'public address of the console behind a proxy, whose name is answered beside SLUICE_ADMIN_HOST and loopback ones; set SLUICE_CONSOLE_TOKEN too, unless the proxy asks who comes',
  ),
  SLUICE_CONSOLE_READ_TOKEN: secret(
    'as SLUICE_CONSOLE_TOKEN, for reading alone: whoever shows it changes no app and no key; SLUICE_CONSOLE_TOKEN, or nobody, may',
  ),
  SLUICE_PORTAL_PORT: wholeNumber(
    { fallback: null, defaultText: 'none: there is no portal', min: 0, max: 65_535 },
    "port for the pages and API of an app's own developers, and for nothing else; 0 lets the system choose",
  ),
  SLUICE_PORTAL_HOST: host('127.0.0.1', '127.0.0.1', 'address that the portal listens on'),
  SLUICE_PORTAL_ORIGIN: webOrigin(
    'public address of the portal, behind what ends its TLS; its Host is then the only one answered; it must be given, as https://…, unless SLUICE_PORTAL_HOST is a loopback address',
  ),
  SLUICE_TRUSTED_PROXIES: addressRanges(
    'addresses of proxies whose X-Forwarded-For counts, on the portal and the admin port: IP addresses or ranges such as 10.0.0.0/8, with commas between',
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
    { several: false, hasDatabase: true },
    'limits and idempotency keys, shared between nodes; set it together with NATS_URL, or set neither',
  ),
  NATS_URL: url(
    ['nats', 'tls'],
    { several: true, hasDatabase: false },
    'the queue and the app records; several servers of a cluster with commas between; set it together with REDIS_URL, or set neither',
  ),
  REDIS_URL_FILE: file('file that holds REDIS_URL, in place of it; read again at each connection'),
  NATS_URL_FILE: file('file that holds NATS_URL, in place of it; read again at each connection'),
  REDIS_CA: file(
    "PEM file of the authorities that Redis's certificate may come from; wants TLS; read again at each connection, as the two below",
    'those of Node',
  ),
  REDIS_CERT: file('PEM file of the certificate that sluice shows to Redis; set it together with REDIS_KEY; wants TLS'),
  REDIS_KEY: file('PEM file of the key of REDIS_CERT'),
  NATS_CREDS: file(
    'credentials file for NATS (a JWT and its seed), in place of a user in NATS_URL; read again at each connection, as the three below',
  ),
  NATS_CA: file("PEM file of the authorities that NATS's certificate may come from; wants TLS", 'those of Node'),
  NATS_CERT: file('PEM file of the certificate that sluice shows to NATS; set it together with NATS_KEY; wants TLS'),
  NATS_KEY: file('PEM file of the key of NATS_CERT'),
  NATS_MONITOR_URLS: urls(
    'monitoring addresses of the NATS servers (http://host:8222), with commas between, to learn when they sync what they acknowledge, and how full they are',
  ),
  SLUICE_REQUIRE_SYNC: oneOf(
    ['true', 'false'],
    'false',
    'with NATS_URL: not ready until each server with a copy of the stream has shown sync_interval: always; with a spool ready while NATS is away (docs/spool.md)',
  ),
  SLUICE_RING_MB: wholeNumber(
    { fallback: 64, ...RING_MB },
    'memory for the bodies of requests in progress, in MiB; a request that finds no room is answered 503',
  ),
  SLUICE_PARSERS: wholeNumber(
    {
      fallback: null,
      defaultText: 'processor cores less one, at least 1; several processes share the cores',
      min: 1,
      max: MAX_PARSERS,
    },
    'threads that check bodies, in each process',
  ),
  SLUICE_PROCESSES: wholeNumber(
    { fallback: 1, min: 1, max: MAX_PROCESSES },
    'worker processes on one port, each with its own ring and threads; more than 1 needs REDIS_URL and NATS_URL',
  ),
  SLUICE_DECODER: oneOf(
    DECODERS,
    'scanner',
    'what checks bodies; simdjson is a package of its own (npm install simdjson), and much slower',
  ),
  SLUICE_PARTITIONS: wholeNumber(
    { fallback: 16, min: 1, max: 1024 },
    'subjects that NATS messages are spread over; all nodes need the same number, and it must never change',
  ),
  SLUICE_STREAM_KEEP_HOURS: wholeNumber(
    { fallback: 72, min: 1, max: 1_000_000 },
    'hours that the stream keeps each event; used only where sluice creates the stream',
  ),
  SLUICE_STREAM_MAX_GB: wholeNumber(
    { fallback: null, defaultText: 'none', min: 1, max: 1_000_000 },
    'most disk for each copy of the stream, in GiB; when it is full, requests are answered 503; used only where sluice creates the stream',
  ),
  SLUICE_STREAM_REPLICAS: wholeNumber(
    { fallback: 1, min: 1, max: MAX_REPLICAS },
    'NATS servers that keep a copy of each event, app record and count; used only where sluice creates the stream or a bucket',
  ),
  SLUICE_JOURNAL_MAX_MB: wholeNumber(
    { fallback: 10_240, min: 1, max: 1_000_000_000 },
    'most disk for the journal, in MiB; when it is full, requests are answered 503',
  ),
  SLUICE_JOURNAL_KEEP_HOURS: orAll(
    wholeNumber(
      { fallback: 72, min: 1, max: 1_000_000 },
      'segments of the journal that are older than this are removed; all keeps them, and so does a journal that version 0.3 or an earlier one made, until this is set',
    ),
  ),
  SLUICE_SPOOL_DIR: text(
    null,
    'none',
    "with NATS_URL: folder on this node's own disk that takes what NATS does not, and sends it on later; until then such a batch is on this one disk (docs/spool.md)",
  ),
  SLUICE_SPOOL_MAX_MB: wholeNumber(
    { fallback: 10_240, min: 1, max: 1_000_000_000 },
    'most disk for the spool, in MiB; when it is full, or 2 GB or 5% of its disk are left, what NATS does not take is answered 503',
  ),
  SLUICE_MAX_KEYS: wholeNumber(
    { fallback: 4_000_000, min: 1, max: 100_000_000 },
    'most idempotency keys that a process remembers, about 30 bytes each; beyond it requests with a key are answered 503, or with REDIS_URL only Redis remembers the key',
  ),
  SLUICE_MAX_CONNECTIONS: wholeNumber(
    {
      fallback: null,
      defaultText: 'the limit of open files (ulimit -n), less 192 and 8 for each thread',
      min: 1,
      max: 10_000_000,
    },
    'most connections on the port for events; shared by all processes; beyond it new ones are closed at once',
  ),
  SLUICE_SHUTDOWN_SECONDS: wholeNumber(
    { fallback: 25, min: 1, max: MAX_SHUTDOWN_SECONDS },
    'longest time from SIGTERM to exit, in seconds',
  ),
  SLUICE_DRAIN_DELAY_SECONDS: wholeNumber(
    { fallback: 0, min: 0, max: MAX_SHUTDOWN_SECONDS },
    'seconds between SIGTERM, when /readyz turns 503, and the refusal of new connections',
  ),
  SLUICE_CORS_ORIGINS: origins(
    'web pages that may send events from the browser: their origins (https://app.example.com), with commas between, or * for all',
  ),
  SLUICE_TLS_CERT: file(
    'PEM file of the certificate: TLS on the port for events; set it together with SLUICE_TLS_KEY; changed files hold for new connections within 10 s',
  ),
  SLUICE_TLS_KEY: file('PEM file of the key of SLUICE_TLS_CERT'),
  SLUICE_LOG_LEVEL: oneOf(LOG_LEVELS, 'info', 'lowest level that is logged'),
} as const

export type SettingName = keyof typeof SETTINGS
export const SETTING_NAMES = Object.keys(SETTINGS) as readonly SettingName[]

interface NumberRule<F> {
  readonly fallback: F
  readonly defaultText?: string
  readonly min: number
  readonly max: number
}

function wholeNumber<F extends number | null>(
  { fallback, defaultText = String(fallback), min, max }: NumberRule<F>,
  about: string,
): Setting<number | F> {
  const fits = (given: string) => /^[0-9]+$/.test(given) && Number(given) >= min && Number(given) <= max
  const read = (given: string) => (fits(given) ? Number(given) : null)
  return { fallback, defaultText, about, mistake: `must be a whole number from ${min} to ${max}`, read }
}

function orAll(setting: Setting<number>): Setting<number | 'all'> {
  const read = (given: string) => (given === 'all' ? given : setting.read(given))
  return { ...setting, mistake: `${setting.mistake}, or all`, read }
}

/** Its value is the text itself, where that fits. */
function text<F extends string | null>(
  fallback: F,
  defaultText: string,
  about: string,
  fits: (given: string) => boolean = () => true,
  mistake = '',
): Setting<string | F> {
  return { fallback, defaultText, about, mistake, read: (given) => (fits(given) ? given : null) }
}

function file(about: string, defaultText = 'none'): Setting<string | null> {
  return text(null, defaultText, about)
}

function host<F extends string | null>(fallback: F, defaultText: string, about: string): Setting<string | F> {
  const fits = (given: string) => isIP(given) !== 0 || /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/.test(given)
  return text(fallback, defaultText, about, fits, 'must be an IP address or a host name, without port or brackets')
}

function oneOf<const V extends string>(allowed: readonly V[], fallback: V, about: string): Setting<V> {
  const names = allowed.join(', ')
  const read = (given: string) => allowed.find((candidate) => candidate === given) ?? null
  return { fallback, defaultText: fallback, about: `${about}: ${names}`, mistake: `must be one of ${names}`, read }
}

function secret(about: string): Setting<string | null> {
  const { min, max } = SECRET_CHARACTERS
  // What a header can carry as it is.
  const fits = (given: string) => given.length >= min && given.length <= max && /^[\x21-\x7e]+$/.test(given)
  return text(null, 'none', about, fits, `must have ${min} to ${max} characters of ASCII, without spaces`)
}

/** As browsers write it in the header Origin. */
function webOrigin(about: string): Setting<string | null> {
  const mistake = 'must be an origin such as https://sluice.example.com, without a path'
  const read = (given: string) => (/^https?:/i.test(given) ? toOrigin(given) : null)
  return { fallback: null, defaultText: 'none', about, mistake, read }
}

function origins(about: string): Setting<readonly string[] | '*' | null> {
  const mistake = 'must be * alone, or origins such as https://app.example.com, without a path, with commas between'
  const read = (given: string) => {
    const found = given.split(',').map((one) => toOrigin(one.trim()))
    return given === '*' ? given : found.every((origin) => origin !== null) ? found : null
  }
  return { fallback: null, defaultText: 'none', about, mistake, read }
}

function addressRanges(about: string): Setting<readonly string[]> {
  const read = (given: string) => {
    const found = given.split(',').map((one) => one.trim())
    return found.every(isAddressRange) ? found : null
  }
  const mistake = 'must be IP addresses or ranges such as 10.0.0.0/8, with commas between'
  return { fallback: [], defaultText: 'none', about, mistake, read }
}

function urls(about: string): Setting<readonly string[]> {
  const isUrl = (given: string) => /^https?:\/\//.test(given) && URL.canParse(given)
  const read = (given: string) => {
    const found = given.split(',').map((one) => one.trim())
    return found.every(isUrl) ? found : null
  }
  const mistake = 'must be URLs such as http://nats-0:8222, with commas between'
  return { fallback: [], defaultText: 'none', about, mistake, read }
}

function url(
  schemes: readonly string[],
  { several, hasDatabase }: { several: boolean; hasDatabase: boolean },
  about: string,
): Setting<string | null> {
  const begins = schemes.map((scheme) => `${scheme}://`)
  const isUrl = (given: string) => {
    if (!begins.some((begin) => given.startsWith(begin)) || !URL.canParse(given) || !isDecodable(given)) return false
    const { hostname, pathname } = new URL(given)
    return hostname !== '' && (!hasDatabase || /^\/?\d{0,5}$/.test(pathname))
  }
  const fits = (given: string) => (several ? given.split(',').map((one) => one.trim()) : [given]).every(isUrl)
  const database = hasDatabase ? ' and nothing but a number as its database' : ''
  const mistake = `must be a URL that begins with ${begins.join(' or ')}, with two hexadecimal digits after each %${database}`
  return text(null, 'none', about, fits, mistake)
}

/** A password may have any character, as %40 for @. */
function isDecodable(given: string): boolean {
  try {
    decodeURIComponent(given)
    return true
  } catch {
    return false
  }
}
