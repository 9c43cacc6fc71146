// What an edit of an app did, in one sentence for a person, and the question before an app is removed. No sentence
// holds a key: it may end up in the log of a script.

import { isDeepStrictEqual } from 'node:util'
import type { PlanName } from '../../apps/app.ts'
import type { ReadKeyRecord } from '../../apps/app-record.ts'
import { MIN_NODE_BYTES } from '../../contract/bounds.ts'
import type { Draft } from '../../records/app-draft.ts'
import type { ReadKeyProblem, RotationResult } from '../../records/app-keys.ts'
import { counted, formatCount } from '../table.ts'
import { monthText } from '../windows.ts'

/** Keys have sentences of their own. */
const NOT_PRINTED: ReadonlySet<string> = new Set(['app_id', 'app_key', 'previous_keys', 'read_keys'])

export function addedText(record: Draft): string {
  return `app ${String(record.app_id)}: added, ${kindText(record)}${leastBytesText(record)}\n`
}

export function changedText(before: Draft, after: Draft): string {
  const members = new Set([...Object.keys(before), ...Object.keys(after)] as (keyof Draft)[])
  const changes = [...members]
    .filter((member) => !NOT_PRINTED.has(member) && !isDeepStrictEqual(before[member], after[member]))
    .map((member) => `${member.replaceAll('_', ' ')} ${valueText(before, member)} → ${valueText(after, member)}`)
  const what = changes.length === 0 ? 'nothing changed, it was so already' : changes.join(', ')
  return `app ${String(after.app_id)}: ${what}${before.bytes_per_minute === after.bytes_per_minute ? '' : leastBytesText(after)}\n`
}

function leastBytesText({ bytes_per_minute: bytes }: Draft): string {
  const isSmall = typeof bytes === 'number' && bytes < MIN_NODE_BYTES
  return isSmall ? `; but each node lets it store at least ${formatCount(MIN_NODE_BYTES)} bytes a minute` : ''
}

export function removedText(appId: string): string {
  return `app ${appId}: removed; its keys are refused from now on\n`
}

export function removeQuestion(appId: string, record: Draft | undefined): string {
  const kind = record === undefined ? 'whose record cannot be used' : kindText(record)
  return `Remove app ${appId}, ${kind}? Its keys are refused from then on. (yes/no) `
}

export function rotatedText(appId: string, { olderValidUntil, dropped }: RotationResult): string {
  const older = olderValidUntil === null ? 'no longer valid' : `valid until ${olderValidUntil}`
  const many = dropped > 0 ? '; it had too many older keys, the oldest one is no longer valid' : ''
  return `app ${appId}: has a new key, the one before it is ${older}${many}\n`
}

/** Never the key: it may end up in the log of a script. */
export function readKeyText(appId: string, { name, expires_at: end }: ReadKeyRecord): string {
  const until = end === undefined ? 'until it is revoked' : `until ${end}`
  return `app ${appId}: read key ${name} reads its figures ${until}; it is not shown again\n`
}

export function revokedText(appId: string, name: string): string {
  return `app ${appId}: read key ${name} opens nothing from now on\n`
}

export function readKeyProblemText(appId: string, problem: ReadKeyProblem, name: string): string {
  if (problem === 'too many') return `app ${appId} has as many read keys as an app may have: revoke one first`
  return problem === 'name taken'
    ? `app ${appId} has a read key ${name} already`
    : `app ${appId} has no read key ${name}: see sluice apps read-keys ${appId}`
}

export function adoptedText(count: number): string {
  return `the bucket SLUICE_APPS is adopted with ${counted(count, 'app record')}: every node takes it up within seconds\n`
}

function kindText({ plan, subscription }: Draft): string {
  return `plan ${String(plan)}, ${String(subscription)}`
}

function valueText(record: Draft, member: keyof Draft): string {
  const value = record[member]
  if (value === undefined) return 'none'
  if (member === 'events_per_month') return monthText(record.plan as PlanName, value as number)
  if (typeof value === 'number') return formatCount(value)
  const empty = member === 'origins' ? 'no page' : 'never'
  if (Array.isArray(value)) return value.length === 0 ? empty : value.join(', ')
  // A name may hold anything, so it is quoted.
  return member === 'name' ? JSON.stringify(value) : (value as string)
}
