// What an acknowledgement survives now, in one line, judged from where the copies of the stream are and how their servers
// write. Pure.

import { isOlderVersion } from '../lib/version.ts'
import type { Placement } from './placement.ts'
import type { ServerFacts } from './server-facts.ts'

/** Older ones lost acknowledged messages in clusters when a process was killed. */
const OLDEST_IN_CLUSTER = '2.10.23'
/** Names that servers make for themselves are their ids. */
const MAX_NAME_CHARACTERS = 24
const SHORT_ID_CHARACTERS = 8

export interface DurabilityFacts {
  readonly isClustered: boolean
  /** Of the stream of events. */
  readonly events: Placement
  /** Of the buckets that are there. */
  readonly buckets: readonly Placement[]
  /** By name, as they were last seen. */
  readonly servers: ReadonlyMap<string, ServerFacts>
}

export interface Durability {
  /** What follows `a 202 survives`. */
  readonly line: string
  readonly isWarning: boolean
  /** Each copy has shown `sync_interval: always`; one that is away counts as it was last seen. */
  readonly isSynced: boolean
}

export function judgeDurability({ isClustered, events, buckets, servers }: DurabilityFacts): Durability {
  const sync = syncReason(events, servers)
  const old = isClustered ? versionReason(servers) : null
  const away = awayReason(events)
  const always = [old, events.unwritten]
  // Another copy has it, unless the one that is away comes back and outvotes it.
  const needsSync = events.replicas.length === 1 || away !== null
  const losses = [
    { name: 'a kill of any server', reason: joined(always) },
    {
      name: 'a power cut of one',
      reason: joined([...always, ...(needsSync && sync !== null ? [away, sync.text] : [])]),
    },
    { name: 'a power cut of all', reason: joined([...always, sync?.text ?? null]) },
  ]
  const single = [events, ...buckets].filter(({ replicas }) => replicas.length === 1).map(({ stream }) => stream)
  const behind = [events, ...buckets].filter((one) => awayReason(one) !== null)
  const notes = [
    ...(single.length === 0 ? [] : [`one replica of ${listed(single)}`]),
    ...behind.map((one) => `${one.stream}: ${awayReason(one)}`),
  ]
  return {
    line: [lossesText(losses), ...notes].join('; '),
    isWarning: notes.length > 0 || old !== null || events.unwritten !== null || sync?.isUnknown === true,
    isSynced: sync === null && events.unwritten === null,
  }
}

interface Loss {
  readonly name: string
  /** Why it is not survived; null: it is. */
  readonly reason: string | null
}

/** Neighbours that have one reason are named together. */
function lossesText(losses: readonly Loss[]): string {
  const held = losses.filter(({ reason }) => reason === null).map(({ name }) => name)
  // What keeps from surviving the last, a power cut of all, is all there is, but for the notes.
  if (held.length === 0) return `nothing for certain (${losses.at(-1)?.reason})`
  const reasons = [...new Set(losses.flatMap(({ reason }) => reason ?? []))]
  const missing = reasons.map((reason) => {
    const names = losses.filter((loss) => loss.reason === reason).map(({ name }) => name)
    return `not ${names.join(' or ')} (${reason})`
  })
  return [listed(held), ...missing].join(', ')
}

/** null: each copy's server syncs before it acknowledges. One that is away and was never seen has shown nothing else. */
function syncReason({ replicas }: Placement, servers: DurabilityFacts['servers']) {
  const unknown: string[] = []
  const late = new Map<number, string[]>()
  for (const { server, state } of replicas) {
    const sync = servers.get(server)?.sync ?? null
    if (sync === null && state !== 'offline') unknown.push(nameOf(server))
    if (typeof sync === 'number') late.set(sync, [...(late.get(sync) ?? []), nameOf(server)])
  }
  const lateTexts = [...late].map(([seconds, names]) => `${verb(names)} every ${seconds} s`)
  const missing = unknown.length === 0 ? null : `when ${verb(unknown)} is not known: see NATS_MONITOR_URLS`
  const text = joined([...lateTexts, missing])
  return text === null ? null : { text, isUnknown: unknown.length > 0 }
}

function versionReason(servers: DurabilityFacts['servers']): string | null {
  const old = [...servers.values()].map(({ version }) => version).find((one) => isOlderVersion(one, OLDEST_IN_CLUSTER))
  return old === undefined
    ? null
    : `nats-server ${old} is older than ${OLDEST_IN_CLUSTER}, and may lose it in a cluster`
}

function awayReason({ replicas }: Placement): string | null {
  return joined(
    (['lagging', 'offline'] as const).map((state) => {
      const names = replicas.filter((one) => one.state === state).map(({ server }) => nameOf(server))
      const are = names.length === 1 ? 'is' : 'are'
      return names.length === 0 ? null : `${listed(names)} ${are} ${state === 'offline' ? 'offline' : 'behind'}`
    }),
  )
}

function verb(names: readonly string[]): string {
  return `${listed(names)} ${names.length === 1 ? 'syncs' : 'sync'}`
}

function nameOf(server: string): string {
  return server.length > MAX_NAME_CHARACTERS ? `${server.slice(0, SHORT_ID_CHARACTERS)}…` : server
}

function joined(reasons: readonly (string | null)[]): string | null {
  const known = reasons.filter((reason) => reason !== null)
  return known.length === 0 ? null : known.join(', ')
}

function listed(names: readonly string[]): string {
  return names.length === 1 ? names[0] : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
}
