// What an edit of an app did, in one sentence for a person, and the question before an app is removed. No sentence
// holds a key: it may end up in the log of a script.

import type { PlanName } from '../../apps/app.ts'
import { formatCount } from '../table.ts'
import { monthText } from '../windows.ts'
import type { Draft } from './app-draft.ts'

/** Keys have sentences of their own. */
const NOT_PRINTED: ReadonlySet<string> = new Set(['app_id', 'app_key', 'previous_keys'])

export function addedText(record: Draft): string {
  return `app ${String(record.app_id)}: added, ${kindText(record)}\n`
}

export function changedText(before: Draft, after: Draft): string {
  const members = new Set([...Object.keys(before), ...Object.keys(after)] as (keyof Draft)[])
  const changes = [...members]
    .filter((member) => !NOT_PRINTED.has(member) && before[member] !== after[member])
    .map((member) => `${member.replaceAll('_', ' ')} ${valueText(before, member)} → ${valueText(after, member)}`)
  const what = changes.length === 0 ? 'nothing changed, it was so already' : changes.join(', ')
  return `app ${String(after.app_id)}: ${what}\n`
}

export function removedText(appId: string): string {
  return `app ${appId}: removed; its keys are refused from now on\n`
}

export function removeQuestion(appId: string, record: Draft | undefined): string {
  const kind = record === undefined ? 'whose record cannot be used' : kindText(record)
  return `Remove app ${appId}, ${kind}? Its keys are refused from then on. (yes/no) `
}

export interface RotationResult {
  /** null: no older key is valid any more. */
  readonly olderValidUntil: string | null
  /** Older keys that were removed before their time. */
  readonly dropped: number
}

export function rotatedText(appId: string, { olderValidUntil, dropped }: RotationResult): string {
  const older = olderValidUntil === null ? 'no longer valid' : `valid until ${olderValidUntil}`
  const many = dropped > 0 ? '; it had too many older keys, the oldest one is no longer valid' : ''
  return `app ${appId}: has a new key, the one before it is ${older}${many}\n`
}

export function adoptedText(count: number): string {
  const records = `${formatCount(count)} app record${count === 1 ? '' : 's'}`
  return `the bucket SLUICE_APPS is adopted with ${records}: every node takes it up within seconds\n`
}

function kindText({ plan, subscription }: Draft): string {
  return `plan ${String(plan)}, ${String(subscription)}`
}

function valueText(record: Draft, member: keyof Draft): string {
  const value = record[member]
  if (value === undefined) return 'none'
  if (member === 'events_per_month') return monthText(record.plan as PlanName, value as number)
  if (typeof value === 'number') return formatCount(value)
  // A name may hold anything, so it is quoted.
  return member === 'name' ? JSON.stringify(value) : (value as string)
}
