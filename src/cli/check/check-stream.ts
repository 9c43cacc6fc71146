// What `sluice check` says of an existing stream: what it holds, how far back it reaches, and how much room is left.

import { EVENTS_STREAM } from '../../nats/store-names.ts'
import { isSpent, type StorageLimit } from '../../queue/stream/storage-limit.ts'
import { PURGE_ADVICE, type StreamFacts } from '../../queue/stream/stream.ts'
import { counted, formatBytes, formatCount, formatSpan } from '../table.ts'
import { type Finding, finding, findingWith, NEARLY_FULL_SHARE } from './finding.ts'

export interface StreamWish {
  /** SLUICE_STREAM_REPLICAS. */
  readonly replicas: number
  readonly nowMs: number
}

/** What else bounds it, and how it refused a message just now (null: it did not, or was not asked). */
export interface StreamLimits {
  readonly limits: readonly StorageLimit[]
  readonly refused: string | null
}

export function refusalBy({ limits, refused }: StreamLimits): string | null {
  const spent = limits.find(isSpent)
  if (spent === undefined) return refused
  return `${spent.store} has no room for a batch of the largest size: ${spent.advice}, or ${PURGE_ADVICE}`
}

export function presentStreamFinding(facts: StreamFacts, wish: StreamWish, { limits, refused }: StreamLimits): Finding {
  const limitTexts = limits.map(
    ({ store, usedBytes, maxBytes }) => `${store} ${formatBytes(usedBytes)} of at most ${formatBytes(maxBytes)}`,
  )
  const detail = `${EVENTS_STREAM}: ${[...factTexts(facts, wish), ...limitTexts].join(', ')}`
  const { differences } = facts
  const refusal = facts.refusal ?? refusalBy({ limits, refused })
  if (refusal !== null) {
    return finding('stream', 'FAIL', [detail, ...differences, `batches are answered 503: ${refusal}`].join('; '))
  }
  const isPast = ({ usedBytes, maxBytes }: StorageLimit): boolean => usedBytes >= NEARLY_FULL_SHARE * maxBytes
  const nearlyFull =
    isNearlyFull(facts) || limits.some(isPast)
      ? ['nearly full; when full, requests get 503: see what its consumers have not had, or raise its limit']
      : []
  return findingWith('stream', detail, [...differences, ...nearlyFull])
}

function factTexts(facts: StreamFacts, { replicas, nowMs }: StreamWish): string[] {
  const { messages, maxMessages, bytes, maxBytes, keepMs, oldestAtMs } = facts
  const ofMessages = maxMessages === null ? '' : ` of at most ${formatCount(maxMessages)}`
  const ofBytes = maxBytes === null ? '' : ` of at most ${formatBytes(maxBytes)}`
  const reaching = oldestAtMs === null ? [] : [`reaching back ${formatSpan(Math.max(0, nowMs - oldestAtMs))}`]
  return [
    `${counted(messages, 'message')}${ofMessages}`,
    `${formatBytes(bytes)}${ofBytes}`,
    ...reaching,
    keepMs === null ? 'kept whatever their age' : `kept ${formatSpan(keepMs)}`,
    `${counted(facts.replicas, 'replica')}${facts.replicas < replicas ? ` (SLUICE_STREAM_REPLICAS: ${replicas})` : ''}`,
  ]
}

/** A stream that discards old messages is never full. */
function isNearlyFull({ bytes, maxBytes, messages, maxMessages, discardsOld }: StreamFacts): boolean {
  if (discardsOld) return false
  const isPast = (used: number, max: number | null): boolean => max !== null && used >= NEARLY_FULL_SHARE * max
  return isPast(bytes, maxBytes) || isPast(messages, maxMessages)
}
