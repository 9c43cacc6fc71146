// The schema of a body: every rule, once, for each member of each object.

import {
  EVENT_TYPES,
  MAX_EVENT_AGE_MS,
  MAX_EVENT_LEAD_MS,
  MAX_EVENTS,
  MAX_KEYS,
  MAX_VALUE_CHARACTERS,
} from '../contract/bounds.ts'
import { parseTimestamp } from '../lib/timestamp.ts'
import type { Findings } from './findings.ts'
import type { JsonObject, JsonValue, Span } from './json.ts'
import { countCodePoints } from './shape.ts'

export type EventType = (typeof EVENT_TYPES)[number]

/** Shared by the checks of one body. */
export interface Examined {
  readonly body: Uint8Array
  readonly findings: Findings
  readonly nowMs: number
  readonly typeCounts: Record<EventType, number>
}

/** `span`: of the member, or of the item of an array. */
type Check = (value: JsonValue, path: string, span: Span, examined: Examined) => void
/** The named members of one object, in the order of the specification. */
type Schema = ReadonlyMap<string, { readonly required: boolean; readonly check: Check }>

const HASH = text(16, 128)

const EVENT: Schema = new Map([
  ['type', required(checkType)],
  ['name', required(text(1, 200))],
  ['hashed_daily_id', required(HASH)],
  ['hashed_monthly_id', required(HASH)],
  ['hashed_retention_id', optional(HASH)],
  ['session_id', required(text(1, 128))],
  ['timestamp', required(checkTimestamp)],
  ['context', required(checkContext)],
  ['properties', optional(checkKeyValues)],
  ['user_id', optional(text(1, 256))],
  ['revenue', optional(checkKeyValues)],
])

const CONTEXT: Schema = new Map([
  ['os', required(text(1, Number.POSITIVE_INFINITY))],
  ['os_version', optional(text(0, Number.POSITIVE_INFINITY))],
  ['app_version', optional(text(0, Number.POSITIVE_INFINITY))],
  ['locale', optional(text(0, Number.POSITIVE_INFINITY))],
  ['device_type', optional(text(0, Number.POSITIVE_INFINITY))],
  ['screen_width', optional(checkNumber)],
  ['screen_height', optional(checkNumber)],
])

export const BODY: Schema = new Map([
  // It was looked for first, by `findAppKey`.
  ['app_key', optional(() => {})],
  ['sdk_version', optional(text(0, Number.POSITIVE_INFINITY))],
  ['events', required(checkEvents)],
])

function required(check: Check): { required: boolean; check: Check } {
  return { required: true, check }
}

function optional(check: Check): { required: boolean; check: Check } {
  return { required: false, check }
}

/** Checks the members of an object in document order, then reports missing ones. Returns the named members. */
export function checkMembers(
  object: JsonObject,
  path: string,
  schema: Schema,
  examined: Examined,
): Map<string, JsonValue> {
  const { findings } = examined
  const prefix = path === '' ? '' : `${path}.`
  const found = new Map<string, JsonValue>()
  for (const member of object.members) {
    if (findings.full) return found
    const { key, value } = member
    const rule = schema.get(key)
    if (rule === undefined) continue
    if (found.has(key)) {
      findings.add('repeated', prefix + key, 'must appear once', member)
      continue
    }
    found.set(key, value)
    rule.check(value, prefix + key, member, examined)
  }
  for (const [key, rule] of schema) {
    if (rule.required && !found.has(key)) findings.add('required', prefix + key, 'required', bracketOf(object))
  }
  return found
}

function checkEvents(value: JsonValue, path: string, span: Span, examined: Examined): void {
  if (value.kind !== 'array') return examined.findings.add('type', path, 'must be an array', span)
  for (const [index, item] of value.items.entries()) {
    if (index === MAX_EVENTS) return examined.findings.add('too_many', path, `at most ${MAX_EVENTS} items`, span)
    examined.findings.event = index
    checkEvent(item, `${path}[${index}]`, item, examined)
    examined.findings.event = null
  }
}

function checkEvent(value: JsonValue, path: string, span: Span, examined: Examined): void {
  if (value.kind !== 'object') return examined.findings.add('type', path, 'must be an object', span)
  const found = checkMembers(value, path, EVENT, examined)
  const type = found.get('type')
  // Last, since `revenue` is the last member of the schema.
  if (type?.kind === 'string' && type.text === 'revenue' && !found.has('revenue')) {
    examined.findings.add('required', `${path}.revenue`, 'required', bracketOf(value))
  }
}

function checkContext(value: JsonValue, path: string, span: Span, examined: Examined): void {
  if (value.kind !== 'object') return examined.findings.add('type', path, 'must be an object', span)
  checkMembers(value, path, CONTEXT, examined)
}

function checkType(value: JsonValue, path: string, span: Span, examined: Examined): void {
  const type = value.kind === 'string' ? EVENT_TYPES.find((name) => name === value.text) : undefined
  if (type === undefined)
    examined.findings.add(
      value.kind === 'string' ? 'one_of' : 'type',
      path,
      `must be one of ${EVENT_TYPES.join(', ')}`,
      span,
    )
  else examined.typeCounts[type] += 1
}

function checkNumber(value: JsonValue, path: string, span: Span, examined: Examined): void {
  if (value.kind !== 'number') examined.findings.add('type', path, 'must be a number', span)
}

function checkTimestamp(value: JsonValue, path: string, span: Span, examined: Examined): void {
  const { findings, nowMs } = examined
  if (value.kind !== 'string') return findings.add('type', path, 'must be a string', span)
  const timeMs = parseTimestamp(value.text)
  if (timeMs === null) return findings.add('format', path, 'must be an ISO 8601 date and time', span)
  if (timeMs < nowMs - MAX_EVENT_AGE_MS || timeMs > nowMs + MAX_EVENT_LEAD_MS) {
    findings.add('range', path, 'must lie between 72 hours in the past and 1 hour in the future', span)
  }
}

/** `properties` and `revenue`. Their keys come from the client, so a path has a member's place in place of its name. */
function checkKeyValues(value: JsonValue, path: string, span: Span, examined: Examined): void {
  if (value.kind !== 'object') return examined.findings.add('type', path, 'must be an object', span)
  for (const [index, member] of value.members.entries()) {
    if (index === MAX_KEYS) return examined.findings.add('too_many', path, `at most ${MAX_KEYS} keys`, span)
    if (!isLong(member.value, examined.body)) continue
    examined.findings.add(
      'length',
      `${path}[${index}]`,
      `at most ${MAX_VALUE_CHARACTERS} characters`,
      member,
      member.key,
    )
  }
}

function text(minimum: number, maximum: number): Check {
  const isOpen = maximum === Number.POSITIVE_INFINITY
  const reason = isOpen ? `length must be at least ${minimum}` : `length must be ${minimum} to ${maximum}`
  return (value, path, span, { findings }) => {
    if (value.kind !== 'string') return findings.add('type', path, 'must be a string', span)
    const characters = countCodePoints(value.text)
    if (characters < minimum || characters > maximum) findings.add(isOpen ? 'empty' : 'length', path, reason, span)
  }
}

/** A string is measured decoded, any other value as sent. */
function isLong(value: JsonValue, body: Uint8Array): boolean {
  if (value.kind === 'string') return countCodePoints(value.text) > MAX_VALUE_CHARACTERS
  let characters = 0
  for (let position = value.start; position < value.end; position++) {
    // Each UTF-8 character has exactly one byte that is not a continuation byte.
    if ((body[position] & 0xc0) !== 0x80) characters += 1
  }
  return characters > MAX_VALUE_CHARACTERS
}

/** Where what is missing would be. */
export function bracketOf({ start }: JsonValue): Span {
  return { start, end: start + 1 }
}
