// The state of each part of a node as a value, made where it is known, and the one place that puts it into words.

/** What it is, and what clients notice or what goes on all the same. */
type Words = readonly [headline: string, consequence?: string]

/** Of each kind of part, in each state in which it can be. */
const WORDS = {
  process: { starting: ['starting'], stopping: ['draining'], silent: ['no answer'] },
  journal: {
    ok: ['journal'],
    warn: ['journal damaged', 'requests get 202 as before; sluice verify lists what is damaged'],
    full: ['journal full', 'answering 503 until there is room'],
    disk_full: ['disk full', 'answering 503 until there is room'],
    disk_error: ['disk error', 'answering 503 until a write succeeds'],
    stuck: ['disk stuck', 'answering 503 until fewer wait'],
  },
  jetstream: {
    ok: ['NATS JetStream'],
    starting: ['connecting to NATS'],
    away: ['NATS away', 'answering 503 until it is back'],
    silent: ['NATS does not acknowledge', 'answering 503 until it does'],
    no_stream: ['no stream in NATS', 'answering 503 until there is one'],
    full: ['stream full', 'answering 503 until there is room'],
    refusing: ['stream refuses messages', 'answering 503 until it takes them'],
    slow: ['NATS slow', 'answering 503 to what it cannot acknowledge in time'],
  },
  spool: {
    ok: ['NATS JetStream'],
    slow: ['NATS slow', 'what it does not take in time goes to the disk of this node'],
    spooling: ['NATS does not take batches', 'they go to the disk of this node, and requests get 202 as before'],
    draining: ['the spool is sent to NATS'],
    unsynced: [
      'NATS has not shown that it syncs what it acknowledges',
      'batches go to the disk of this node first, and requests get 202 as before',
    ],
    full: ['spool full', 'answering 503 until NATS takes batches or there is room'],
    disk_error: ['NATS does not take batches, and the disk of the spool fails', 'answering 503'],
  },
  memory: { ok: ['in memory'] },
  audit: {
    ok: ['audit of the limits'],
    skewed: ["this node's clock is wrong", 'other nodes audit its partitions'],
    apart: ['clocks differ', 'no node audits, and counters may be too high'],
  },
  redis: {
    ok: ['in Redis'],
    starting: ['connecting to Redis'],
    away: ['Redis away', 'this node enforces its share of each limit'],
    slow: ['Redis slow'],
    forgotten: [
      'Redis has lost counts',
      'this node enforces its share of limits until the audit has written them again',
    ],
    unserved: ['Redis Cluster does not serve all apps', 'this node enforces its share of their limits'],
  },
  file: { ok: ['in a file'], error: ['app file cannot be used', 'the last good one stays in force; see the log'] },
  bucket: {
    ok: ['in NATS'],
    starting: ['reading the app records from NATS'],
    unread: ['app records not read yet', 'answering 503 until they are'],
    kept: ['app records not read from NATS yet', 'those that this node has kept hold until they are'],
    away: ['app records not updated', 'the known ones stay in force'],
  },
  node_http: {
    ok: ["Node's own HTTP server"],
    warn: ["Node's own HTTP server, since uWebSockets.js does not load", 'it carries about seven tenths as much'],
  },
  durability: {
    ok: ['a 202 survives'],
    warn: ['a 202 survives'],
    unknown: ['what a 202 survives is not known yet'],
    unsynced: [
      'NATS has not shown that it syncs what it acknowledges',
      'not ready until each server shows sync_interval: always (SLUICE_REQUIRE_SYNC)',
    ],
  },
} as const satisfies Record<string, Readonly<Record<string, Words>>>

const SPOOLED = 'what it does not take is kept in the spool, on the disk of this node'

export type PartStates = { readonly [Kind in keyof typeof WORDS]: keyof (typeof WORDS)[Kind] }

export const PART_NAMES = ['service', 'queue', 'limits', 'apps', 'audit', 'durability', 'http'] as const
export const PART_KINDS: readonly string[] = Object.keys(WORDS)
export const PART_STATES: readonly string[] = [
  ...new Set(Object.values(WORDS).flatMap((states) => Object.keys(states))),
]

export type PartName = (typeof PART_NAMES)[number]
export type PartKind = keyof PartStates
export type PartState = PartStates[PartKind]

export interface Status<Kind extends PartKind = PartKind> {
  readonly state: PartStates[Kind]
  /** A detail, such as `connection refused`; safe to show to anybody. null: the state says all. */
  readonly reason: string | null
}

/** `kind`: what does the part's work. */
type AnyStatus = { [Kind in PartKind]: Status<Kind> & { readonly kind: Kind } }[PartKind]

/** `worker`: whose it is, where there are several. */
export type Part = AnyStatus & {
  readonly part: PartName
  readonly worker?: number
}

export interface Health {
  /** True from the first successful start until the drain, but for a node with a spool whose NATS does not show that it syncs. */
  ready(): boolean
  parts(): readonly Part[]
}

/** A supervisor has to ask its worker processes. */
export interface AskedHealth {
  ready(): boolean | Promise<boolean>
  parts(): readonly Part[] | Promise<readonly Part[]>
}

/** A few words, such as `Redis away`. */
export function headlineOf(part: AnyStatus): string {
  return wordsOf(part)[0]
}

/** For example `Redis away: connection refused: this node enforces its share of each limit`. */
export function describePart(part: AnyStatus): string {
  const [headline, consequence] = wordsOf(part)
  return joined(headline, part.reason, consequence)
}

/** The same of a JetStream behind a spool, which answers 202 all the same. */
export function describeSpooled(status: Status<'jetstream'>): string {
  const [headline, consequence] = wordsOf({ kind: 'jetstream', ...status })
  return joined(headline, status.reason, consequence === undefined ? undefined : SPOOLED)
}

function joined(...parts: readonly (string | null | undefined)[]): string {
  return parts.filter((words) => words != null).join(': ')
}

function wordsOf({ kind, state }: AnyStatus): Words {
  const ofKind: Readonly<Record<string, Words>> = WORDS[kind]
  return ofKind[state]
}

/** It does its work, slowly or with less than it should have perhaps. */
export function isUp({ state }: Status): boolean {
  return state === 'ok' || state === 'slow' || state === 'warn' || state === 'unknown'
}

/** As JSON shows it. */
export function viewOf(part: Part) {
  const { kind, state, reason } = part
  return { kind, state, reason, up: isUp(part), text: describePart(part) }
}

/** Of a process that says nothing of its parts, or nothing but this. */
export function servicePart(state: PartStates['process']): Part {
  return { part: 'service', kind: 'process', state, reason: null }
}
