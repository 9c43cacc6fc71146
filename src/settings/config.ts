// Turns environment variables into one frozen Config. It reports all mistakes together, so that the rest of the service can
// trust them.

import { join } from 'node:path'
import { ADMIN_MAX_CONNECTIONS, PORTAL_MAX_CONNECTIONS } from '../contract/bounds.ts'
import { ConfigError, errorMessage } from '../lib/errors.ts'
import { nearest } from '../lib/near.ts'
import { maxOpenFiles } from '../lib/open-files.ts'
import { HOUR_MS } from '../lib/spans.ts'
import { type Machine, thisMachine } from './machine.ts'
import { relationMistakes, type Values } from './relations.ts'
import { SETTING_NAMES, SETTINGS, type SettingName } from './settings.ts'

const MIB = 1024 * 1024
const GIB = 1024 * MIB
const SECOND_MS = 1000
/** For the journal's segments and snapshots, the connections to Redis and NATS, and Node's own files, with a margin. */
const RESERVED_OPEN_FILES = 64
const OPEN_FILES_PER_THREAD = 8
/** The minimum where the limit of open files leaves fewer. */
const MIN_CONNECTIONS = 16

/** A node has both Redis and NATS, or neither. */
export type Config = ReturnType<typeof toConfig>

type Environment = Readonly<Record<string, string | undefined>>

/** Throws a ConfigError that lists every mistake. */
export function readConfig(given: Environment, machine: Machine = thisMachine): Config {
  const mistakes = unknownNames(given)
  const env = withFileValues(given, machine, mistakes)
  const values = readValues(env, mistakes)
  mistakes.push(...sharingMistakes(env), ...portalMistakes(env), ...relationMistakes(values, machine))
  if (mistakes.length > 0) throw new ConfigError(mistakes)
  return toConfig(values, env, machine)
}

function readValues(env: Environment, mistakes: string[]): Values {
  const values: Record<string, unknown> = {}
  for (const name of SETTING_NAMES) {
    const setting = SETTINGS[name]
    const text = env[name]
    values[name] = setting.fallback
    if (text === undefined || !isSet(env, name)) continue
    const value = setting.read(text)
    const label = isSet(env, `${name}_FILE`) ? `${name}_FILE` : name
    if (value === null) mistakes.push(`${label}: ${setting.mistake}${foundText(name, text)}`)
    else values[name] = value
  }
  return values as Values
}

/** Settings whose value may be in a file, so that it is in no environment and can change. */
const IN_FILES = ['REDIS_URL', 'NATS_URL', 'SLUICE_CONSOLE_TOKEN'] as const

function withFileValues(env: Environment, machine: Machine, mistakes: string[]): Environment {
  const values: Record<string, string> = {}
  for (const name of IN_FILES) {
    const path = env[`${name}_FILE`] ?? ''
    if (path === '') continue
    if (isSet(env, name)) {
      mistakes.push(`${name}_FILE: give it or ${name}, not both`)
      continue
    }
    try {
      values[name] = machine.readValueFile(path)
    } catch (error) {
      mistakes.push(`${name}_FILE: ${errorMessage(error)}`)
    }
  }
  return { ...env, ...values }
}

/** Quotes a wrong value, except where it may hold a secret. */
function foundText(name: SettingName, text: string): string {
  if (/_(URLS?|TOKEN)$/.test(name)) return ''
  const shown = text.length > 60 ? `${text.slice(0, 60)}…` : text
  return `, not ${JSON.stringify(shown)}${serviceLinkHint(text)}`
}

/** Kubernetes sets variables for each Service in every pod: a Service `sluice` sets `SLUICE_PORT`. */
function serviceLinkHint(text: string): string {
  return text.startsWith('tcp://') ? ' (set by Kubernetes? give the pod enableServiceLinks: false)' : ''
}

function unknownNames(env: Environment): string[] {
  const known = new Set<string>(SETTING_NAMES)
  return Object.keys(env)
    .filter((name) => name.startsWith('SLUICE_') && !known.has(name))
    .sort()
    .map((name) => `${name}: no such setting${nearText(name)}${serviceLinkHint(env[name] ?? '')}`)
}

/** Compared without the prefix, so that SLUICE_PORT is near to PORT. */
function nearText(name: string): string {
  const near = nearest(withoutPrefix(name), SETTING_NAMES.map(withoutPrefix))
  const known = SETTING_NAMES.find((each) => near !== undefined && withoutPrefix(each) === near)
  return known === undefined ? '' : `; did you mean ${known}?`
}

function withoutPrefix(name: string): string {
  return name.startsWith('SLUICE_') ? name.slice('SLUICE_'.length) : name
}

/** Compose files and shells pass unset variables as empty ones. */
function isSet(env: Environment, name: string): boolean {
  return (env[name] ?? '') !== ''
}

/** Nodes that share the stream must share the limits, and limits in Redis are rebuilt from the stream. */
function sharingMistakes(env: Environment): string[] {
  // One that could not be read is named already.
  const isNamed = (name: 'REDIS_URL' | 'NATS_URL'): boolean => isSet(env, name) || isSet(env, `${name}_FILE`)
  if (isNamed('REDIS_URL') === isNamed('NATS_URL')) return []
  const [missing, given] = isNamed('NATS_URL') ? ['REDIS_URL', 'NATS_URL'] : ['NATS_URL', 'REDIS_URL']
  return [`${missing}: must be given with ${given}: both for many nodes, neither for this machine alone`]
}

/** They do nothing without the port, and nobody is to believe that they do. */
function portalMistakes(env: Environment): string[] {
  if (isSet(env, 'SLUICE_PORTAL_PORT')) return []
  return ['SLUICE_PORTAL_HOST', 'SLUICE_PORTAL_ORIGIN']
    .filter((name) => isSet(env, name))
    .map((name) => `${name}: must be given with SLUICE_PORTAL_PORT`)
}

/** Each process gets an equal share of the cores, one of them for its event loop. */
function parsersOf(values: Values, machine: Machine): number {
  return values.SLUICE_PARSERS ?? Math.max(1, Math.floor(machine.parallelism / values.SLUICE_PROCESSES) - 1)
}

/** Each process gets an equal share of the setting, or else the open files that nothing else needs. */
function maxConnectionsOf(values: Values, machine: Machine): number {
  const { SLUICE_MAX_CONNECTIONS: most, SLUICE_PROCESSES: processes } = values
  if (most !== null) return Math.max(1, Math.floor(most / processes))
  const reserved = reservedOpenFiles(parsersOf(values, machine), values.SLUICE_PORTAL_PORT !== null)
  return Math.max(MIN_CONNECTIONS, machine.maxOpenFiles() - reserved)
}

/** Open files of a process other than connections to the public port. */
function reservedOpenFiles(parsers: number, hasPortal: boolean): number {
  const ofPages = ADMIN_MAX_CONNECTIONS + (hasPortal ? PORTAL_MAX_CONNECTIONS : 0)
  return RESERVED_OPEN_FILES + ofPages + OPEN_FILES_PER_THREAD * (parsers + 1)
}

/** Why the connections do not fit into the limit of open files. Checked where the service runs, not by readConfig. */
export function openFilesProblem(config: Config, openFiles = maxOpenFiles()): string | null {
  const { maxConnections, parsers, portal } = config
  const wanted = maxConnections + reservedOpenFiles(parsers, portal !== null)
  if (wanted <= openFiles) return null
  return (
    `a process with ${maxConnections} connections and ${parsers + 1} threads wants ${wanted} open files, and may have ` +
    `${openFiles}; raise the limit of open files (ulimit -n), or lower SLUICE_MAX_CONNECTIONS`
  )
}

function toConfig(values: Values, env: Environment, machine: Machine) {
  const embedded = values.REDIS_URL === null && values.NATS_URL === null
  const defaultAppsFile = embedded ? join(values.SLUICE_DATA_DIR, 'apps.json') : null
  const keepHours = values.SLUICE_JOURNAL_KEEP_HOURS
  const maxGb = values.SLUICE_STREAM_MAX_GB
  const { SLUICE_TLS_CERT: certFile, SLUICE_TLS_KEY: keyFile } = values
  return Object.freeze({
    publicPort: values.PORT,
    publicHost: values.HOST,
    httpEngine: values.SLUICE_HTTP_ENGINE,
    adminPort: values.SLUICE_ADMIN_PORT,
    /** The operator named the port, so commands ask there. */
    adminPortNamed: isSet(env, 'SLUICE_ADMIN_PORT'),
    adminHost: values.SLUICE_ADMIN_HOST ?? (embedded ? '127.0.0.1' : '::'),
    /** Opens the console; null: it is there on a loopback address only. */
    consoleToken: values.SLUICE_CONSOLE_TOKEN,
    /** Holds the token now; null: no file does. */
    consoleTokenFile: values.SLUICE_CONSOLE_TOKEN_FILE,
    /** The public address of the console; null: it has none. */
    consoleOrigin: values.SLUICE_CONSOLE_ORIGIN,
    /** Opens the console for reading alone; null: nothing does. */
    consoleReadToken: values.SLUICE_CONSOLE_READ_TOKEN,
    /** The listener for apps' own developers; null: there is none. */
    portal:
      values.SLUICE_PORTAL_PORT === null
        ? null
        : Object.freeze({
            port: values.SLUICE_PORTAL_PORT,
            host: values.SLUICE_PORTAL_HOST,
            origin: values.SLUICE_PORTAL_ORIGIN,
          }),
    trustedProxies: values.SLUICE_TRUSTED_PROXIES,
    dataDirectory: values.SLUICE_DATA_DIR,
    /** null: app records live in NATS. */
    appsFile: values.SLUICE_APPS_FILE ?? defaultAppsFile,
    /** The operator named the file, so a missing one is a mistake, not a first start. */
    appsFileNamed: values.SLUICE_APPS_FILE !== null,
    redis:
      values.REDIS_URL === null
        ? null
        : Object.freeze({
            url: values.REDIS_URL,
            urlFile: values.REDIS_URL_FILE,
            caFile: values.REDIS_CA,
            certFile: values.REDIS_CERT,
            keyFile: values.REDIS_KEY,
          }),
    nats:
      values.NATS_URL === null
        ? null
        : Object.freeze({
            url: values.NATS_URL,
            urlFile: values.NATS_URL_FILE,
            credsFile: values.NATS_CREDS,
            caFile: values.NATS_CA,
            certFile: values.NATS_CERT,
            keyFile: values.NATS_KEY,
          }),
    /** Where the NATS servers say when they sync. */
    natsMonitorUrls: values.NATS_MONITOR_URLS,
    requireSync: values.SLUICE_REQUIRE_SYNC === 'true',
    /** A single node with everything in its data folder, without Redis and NATS. */
    embedded,
    ringBytes: values.SLUICE_RING_MB * MIB,
    /** Threads per process. */
    parsers: parsersOf(values, machine),
    processes: values.SLUICE_PROCESSES,
    decoder: values.SLUICE_DECODER,
    partitions: values.SLUICE_PARTITIONS,
    /** The stream, where it has to be created. `maxBytes`: on each copy; null: no maximum. */
    stream: Object.freeze({
      replicas: values.SLUICE_STREAM_REPLICAS,
      keepMs: values.SLUICE_STREAM_KEEP_HOURS * HOUR_MS,
      maxBytes: maxGb === null ? null : maxGb * GIB,
    }),
    /** null: without NATS, 503. */
    spool:
      values.SLUICE_SPOOL_DIR === null
        ? null
        : Object.freeze({
            directory: values.SLUICE_SPOOL_DIR,
            maxBytes: Math.floor((values.SLUICE_SPOOL_MAX_MB * MIB) / values.SLUICE_PROCESSES),
          }),
    journalMaxBytes: values.SLUICE_JOURNAL_MAX_MB * MIB,
    /** null: segments are never removed. */
    journalKeepMs: keepHours === 'all' ? null : keepHours * HOUR_MS,
    /** The operator named it, so it holds for a journal of an earlier version too. */
    journalKeepNamed: isSet(env, 'SLUICE_JOURNAL_KEEP_HOURS'),
    maxKeys: values.SLUICE_MAX_KEYS,
    /** Per process. */
    maxConnections: maxConnectionsOf(values, machine),
    shutdownMs: values.SLUICE_SHUTDOWN_SECONDS * SECOND_MS,
    drainDelayMs: values.SLUICE_DRAIN_DELAY_SECONDS * SECOND_MS,
    tls: certFile === null || keyFile === null ? null : Object.freeze({ certFile, keyFile }),
    /** The origins of web pages that may send; `*`: all; null: none. */
    corsOrigins: values.SLUICE_CORS_ORIGINS,
    logLevel: values.SLUICE_LOG_LEVEL,
  })
}
