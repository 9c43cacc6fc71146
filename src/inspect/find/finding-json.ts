// What a search for one batch has found as JSON, for the console's API and for `sluice find --json`.

import { basename } from 'node:path'
import { MAX_DAMAGE_SHOWN } from '../../contract/admin/words.ts'
import { type ConsumerState, type Finding, goOnBeforeMs, type Place } from '../../queue/find/finding.ts'
import type { Question } from '../../queue/find/question.ts'
import type { Damage } from '../../queue/journal/segment-cursor.ts'

export interface Shown {
  readonly withRecord: boolean
  readonly isForApp?: boolean
  readonly damage?: readonly Damage[]
}

/**
 * `withRecord`: the record stands in it byte for byte, since a parser would round its numbers. `isForApp`: it says nothing of
 * where and how much is stored, nor who reads it. `damage`: what the search has met.
 */
export function findingJson(
  finding: Finding,
  question: Question,
  { withRecord, isForApp = false, damage = [] }: Shown,
): string {
  const met = damage.length === 0 ? {} : { damage: damage.slice(0, MAX_DAMAGE_SHOWN).map(damageJson) }
  if (finding.kind === 'not found') {
    const { reason, searched, reachesBackToMs } = finding
    const goOnBefore = reason === 'stopped' ? timeText(goOnBeforeMs(finding)) : null
    const rest = { complete: reason !== 'stopped', go_on_before: goOnBefore }
    if (isForApp) return JSON.stringify({ found: false, batch_id: question.batchId, ...rest })
    return JSON.stringify({
      found: false,
      batch_id: question.batchId,
      reason,
      searched_from: timeText(searched.fromMs),
      searched_to: timeText(searched.beforeMs),
      queue_reaches_back_to: reachesBackToMs === null ? null : timeText(reachesBackToMs),
      ...rest,
      ...met,
    })
  }
  const { record, place, consumers } = finding
  const head = JSON.stringify({
    found: true,
    batch_id: record.batchId,
    app_id: record.appId,
    received_at: record.receivedAt,
    sdk_version: record.sdkVersion,
    trace: record.trace,
    events: record.events,
    keyed: question.madeAtMs === null,
    ...(isForApp ? {} : { place: placeJson(place, record.receivedAt), consumers: consumers.map(consumerJson), ...met }),
  })
  return withRecord ? `${head.slice(0, -1)},"record":${record.line.toString('utf8')}}` : head
}

/** Once each, and no more than are shown: a segment is opened for each record that may be the one. false: it is known. */
export function noteDamage(all: Damage[], damage: Damage): boolean {
  const isKnown = all.some(
    ({ kind, path, offset }) => kind === damage.kind && path === damage.path && offset === damage.offset,
  )
  if (!isKnown && all.length < MAX_DAMAGE_SHOWN) all.push(damage)
  return !isKnown
}

function damageJson({ kind, path, offset, length }: Damage): object {
  return { kind, file: basename(path), offset_bytes: offset, length_bytes: length }
}

/** NATS does not say when a consumer read a message. */
function consumerJson({ name, state }: ConsumerState): object {
  return { name, state, read_at: null }
}

function placeJson(place: Place, receivedAt: string): unknown {
  if (place.kind === 'journal') {
    const { kind, segment, offsetBytes, lengthBytes } = place
    return { kind, segment, offset_bytes: offsetBytes, length_bytes: lengthBytes }
  }
  if (place.kind === 'spool') {
    const { kind, folder, segment, offsetBytes, lengthBytes } = place
    return { kind, since: receivedAt, folder, segment, offset_bytes: offsetBytes, length_bytes: lengthBytes }
  }
  const { kind, stream, subject, sequence, storedAtMs, isSpooled } = place
  return { kind, stream, subject, sequence, stored_at: timeText(storedAtMs), spooled: isSpooled }
}

export function timeText(timeMs: number): string {
  return new Date(timeMs).toISOString()
}
