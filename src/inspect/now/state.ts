// The state of a node, and of several together, as values, and the words that say why it is so.

import type { NodeState, ReasonRate } from '../../contract/admin/now.ts'
import { headlineOf, type Part, type PartStates } from '../../contract/health.ts'
import type { OverloadReason } from '../../contract/outcome.ts'

/** With a part in one of these states every request is refused, for this reason. */
const REFUSING: { readonly [Kind in keyof PartStates]?: Partial<Record<PartStates[Kind], OverloadReason>> } = {
  journal: { full: 'journal_full', disk_full: 'journal_full', disk_error: 'journal_error', stuck: 'journal_stuck' },
  jetstream: {
    away: 'nats_away',
    silent: 'nats_away',
    no_stream: 'nats_away',
    full: 'stream_full',
    refusing: 'stream_refused',
  },
  spool: { full: 'spool_full', disk_error: 'journal_error' },
  bucket: { unread: 'apps_unread' },
}

function refusalOf<Kind extends keyof PartStates>({ kind, state }: { kind: Kind; state: PartStates[Kind] }) {
  return REFUSING[kind]?.[state] ?? null
}

export interface StateFacts {
  readonly isReady: boolean
  readonly isStopping: boolean
  readonly isStreamUp: boolean
  /** The parts that are not up, and since when. */
  readonly down: readonly { readonly part: Part; readonly seconds: number }[]
  /** Requests answered 503 a second, by their reason. */
  readonly overloaded: Readonly<Record<string, number>>
}

export function stateOf({ isReady, isStopping, isStreamUp, down, overloaded }: StateFacts): NodeState {
  const parts = down
    .filter(({ part }) => part.part !== 'service')
    .map(({ part, seconds }) => ({ reason: refusalOf(part), text: `${headlineOf(part)} for ${seconds} s` }))
  const refusing = parts.filter(({ reason }) => reason !== null)
  const reasons = addedReasons([
    Object.entries(overloaded)
      .map(([reason, per_second]) => ({ reason, per_second }))
      // Of the last seconds, and over. For other reasons a part that is up may refuse some requests and take others.
      .filter(({ reason }) => !isStreamUp || reason !== 'nats_away'),
    // Nobody may send just now.
    refusing.map(({ reason }) => ({ reason: String(reason), per_second: 0 })),
  ])
  const others = reasons.filter(({ reason }) => !refusing.some((part) => part.reason === reason))
  const texts = [
    ...refusing.map(({ text }) => text),
    ...others.map(({ reason }) => wordsOf(reason)),
    ...parts.filter(({ reason }) => reason === null).map(({ text }) => text),
  ]
  const state_reason = texts.length === 0 ? null : texts.join(', ')
  if (isStopping) return { state: 'stopping', state_reason: null, reasons }
  if (!isReady) return { state: 'starting', state_reason, reasons }
  if (reasons.length > 0) return { state: 'refusing', state_reason, reasons }
  return { state: state_reason === null ? 'serving' : 'degraded', state_reason, reasons }
}

/** `ring_full` as `ring full`. */
function wordsOf(reason: string): string {
  return reason.replaceAll('_', ' ').replace('nats', 'NATS').replace('redis', 'Redis')
}

/** The most frequent first. */
function addedReasons(lists: readonly (readonly ReasonRate[])[]): ReasonRate[] {
  const rates = new Map<string, number>()
  for (const { reason, per_second } of lists.flat()) rates.set(reason, (rates.get(reason) ?? 0) + per_second)
  return [...rates]
    .map(([reason, per_second]) => ({ reason, per_second }))
    .toSorted((one, other) => other.per_second - one.per_second)
}

const MAX_NAMED = 3

type NamedState = NodeState & { readonly node: string }

/** `silent`: how many nodes do not answer. `problem`: why others cannot be asked; null: they can, or there are none. */
export function mergeState(all: readonly NamedState[], silent: number, problem: string | null): NodeState {
  const reasons = addedReasons(all.map((node) => node.reasons))
  const of = (state: NodeState['state'], state_reason: string | null): NodeState => ({ state, state_reason, reasons })
  if (all.length === 0)
    return of(silent > 0 || problem !== null ? 'refusing' : 'starting', problem ?? 'no node answers')
  const are = (state: NodeState['state']): readonly NamedState[] => all.filter((node) => node.state === state)
  const [stopping, refusing, degraded, starting] = [are('stopping'), are('refusing'), are('degraded'), are('starting')]
  if (stopping.length === all.length) return of('stopping', null)
  if (refusing.length > 0) return of('refusing', namedReason(refusing, all.length))
  if (are('serving').length + degraded.length === 0) return of('starting', starting[0].state_reason)
  // By a node that starts or stops; before it gets requests it refuses none.
  const given = reasons.filter(({ per_second }) => per_second > 0)
  if (given.length > 0) return of('refusing', given.map(({ reason }) => wordsOf(reason)).join(', '))
  if (degraded.length > 0) return of('degraded', namedReason(degraded, all.length))
  if (problem !== null) return of('degraded', problem)
  if (silent > 0) {
    return of('degraded', `${silent} of ${all.length + silent} nodes ${silent === 1 ? 'does' : 'do'} not answer`)
  }
  if (starting.length > 0) return of('degraded', `${starting[0].node} is starting`)
  return of('serving', null)
}

/** Names the nodes, or the first of them, where it does not hold of all. */
function namedReason(nodes: readonly NamedState[], count: number): string | null {
  if (nodes.length === count) return nodes[0].state_reason
  const named = nodes.slice(0, MAX_NAMED).map(({ node, state_reason: reason }) => `${node}: ${reason ?? ''}`)
  const more = nodes.length - named.length
  return named.join('; ') + (more > 0 ? `; and ${more} more` : '')
}
