// What `sluice check` says of an existing stream: what it holds, how far back it reaches, and how much room is left.

import { EVENTS_STREAM } from '../../nats/store-names.ts'
import { type StreamFacts } from '../../queue/stream/stream.ts'
import { formatBytes, formatCount, formatSpan } from '../table.ts'
import { type Finding, finding, findingWith, NEARLY_FULL_SHARE } from './finding.ts'

export interface StreamWish {
  /** SLUICE_STREAM_REPLICAS. */
  readonly replicas: number
  readonly nowMs: number
}

export function presentStreamFinding(facts: StreamFacts, wish: StreamWish): Finding {
  const detail = `${EVENTS_STREAM}: ${factTexts(facts, wish).join(', ')}`
  const { differences, refusal } = facts
  if (refusal !== null) {
    return finding('stream', 'FAIL', [detail, ...differences, `batches are answered 503: ${refusal}`].join('; '))
  }
  const nearlyFull = isNearlyFull(facts)
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
    `${countOf(messages, 'message')}${ofMessages}`,
    `${formatBytes(bytes)}${ofBytes}`,
    ...reaching,
    keepMs === null ? 'kept whatever their age' : `kept ${formatSpan(keepMs)}`,
    `${countOf(facts.replicas, 'replica')}${facts.replicas < replicas ? ` (SLUICE_STREAM_REPLICAS: ${replicas})` : ''}`,
  ]
}

/** A stream that discards old messages is never full. */
function isNearlyFull({ bytes, maxBytes, messages, maxMessages, discardsOld }: StreamFacts): boolean {
  if (discardsOld) return false
  const isPast = (used: number, max: number | null): boolean => max !== null && used >= NEARLY_FULL_SHARE * max
  return isPast(bytes, maxBytes) || isPast(messages, maxMessages)
}

function countOf(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`
}
