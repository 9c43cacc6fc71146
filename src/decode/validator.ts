// The reference validation of a body: every rule of the schema, once. It runs only on bodies that the scanner did not
// accept, decides on them, and names the wrong member.

import {
  EVENT_TYPES,
  MAX_ERRORS_COUNTED,
  MAX_ERRORS_LISTED,
  MAX_EVENT_AGE_MS,
  MAX_EVENT_LEAD_MS,
  MAX_EVENTS,
  MAX_KEYS,
  MAX_SDK_VERSION_CHARACTERS,
  MAX_VALUE_CHARACTERS,
} from '../contract/bounds.ts'
import { parseTimestamp } from '../lib/timestamp.ts'
import { FIELD } from '../ring/layout.ts'
import { Findings, namedPathOf, textOf } from './findings.ts'
import { type JsonArray, type JsonObject, type JsonString, type JsonValue, readJson, type Span } from './json.ts'
import { countCodePoints, shapeOf } from './shape.ts'
import type { Refused, Validation } from './verdict.ts'

type EventType = (typeof EVENT_TYPES)[number]

/** Members of `properties` and `revenue` are named by their names here, since the body is the reader's own. */
export interface Violation {
  readonly path: string
  readonly message: string
  /** Its bytes in the body; null: the body is not JSON. */
  readonly start: number | null
  readonly end: number | null
}

/** Every invalid member of a body, in document order, for `sluice explain`. */
export type Violations =
  | { readonly code: null; readonly appKey: string; readonly events: number }
  | {
      readonly code: Refused['code']
      readonly appKey: string | null
      /** What the service answers. */
      readonly message: string
      readonly found: readonly Violation[]
    }

/**
 * Returns the data of a valid body or what is wrong with it. Of a body that is refused it writes to
 * `words` only where its events lie: the hash of a replay goes by them. */
export function validate(body: Uint8Array, nowMs: number, words: Int32Array, at: number): Validation {
  const result = examine(body, nowMs, MAX_ERRORS_LISTED)
  if (result.kind === 'refused') {
    const { code, appKey, sdkVersion, root, events, findings } = result
    words[at + FIELD.eventsStart] = events?.start ?? 0
    words[at + FIELD.eventsEnd] = events?.end ?? 0
    const json = JSON.stringify(findings.listed.map(({ path, message }) => ({ path, message })))
    const errors = root === null ? null : { json, total: findings.total, shape: shapeOf(findings.listed[0], root) }
    return { kind: 'refused', code, appKey, sdkVersion, message: textOf(findings.listed[0]), errors }
  }
  const { envelope } = result
  const { appKey, sdkVersion, events, typeCounts } = envelope
  words[at + FIELD.appKeyStart] = appKey.start + 1
  words[at + FIELD.appKeyEnd] = appKey.end - 1
  words[at + FIELD.sdkVersionStart] = sdkVersion?.start ?? 0
  words[at + FIELD.sdkVersionEnd] = sdkVersion?.end ?? 0
  words[at + FIELD.eventsStart] = events.start
  words[at + FIELD.eventsEnd] = events.end
  for (const type of EVENT_TYPES) words[at + FIELD[type]] = typeCounts[type]
  return { kind: 'accepted', appKey: appKey.text, extras: extrasOf(body, result.root) }
}

/** `givenKey`: in place of the body's own; null: the body's own. */
export function violations(body: Uint8Array, nowMs: number, givenKey: string | null): Violations {
  const result = examine(body, nowMs, MAX_ERRORS_COUNTED, givenKey)
  if (result.kind === 'refused') {
    const { code, appKey, findings } = result
    const found = findings.listed.map((finding) => {
      const { start, end } = code === 'invalid_json' ? { start: null, end: null } : finding.span
      return { path: namedPathOf(finding), message: finding.message, start, end }
    })
    return { code, appKey, message: textOf(findings.listed[0]), found }
  }
  return { code: null, appKey: result.envelope.appKey.text, events: result.envelope.events.items.length }
}

/** The members of a valid body. */
interface Envelope {
  readonly appKey: JsonString
  readonly sdkVersion: JsonString | null
  readonly events: JsonArray
  readonly typeCounts: Record<EventType, number>
}

type Examination =
  | { readonly kind: 'fits'; readonly root: JsonObject; readonly envelope: Envelope }
  | {
      readonly kind: 'refused'
      readonly code: Refused['code']
      readonly appKey: string | null
      readonly sdkVersion: string | null
      /** null: the body is not JSON. */
      readonly root: JsonValue | null
      /** null: the body has none. */
      readonly events: JsonValue | null
      readonly findings: Findings
    }

/** First the grammar, then the app key, then the rest, since the app is looked up before the schema is checked. */
function examine(body: Uint8Array, nowMs: number, maxListed: number, givenKey: string | null = null): Examination {
  const findings = new Findings(maxListed)
  const reading = readJson(body)
  if (reading.kind === 'broken') {
    findings.add('body', reading.problem, { start: 0, end: 0 })
    return { kind: 'refused', code: 'invalid_json', appKey: null, sdkVersion: null, root: null, events: null, findings }
  }
  const appKey = findAppKey(reading.value, givenKey, findings)
  const shownVersion = shownVersionOf(reading.value)
  const common = { sdkVersion: shownVersion, root: reading.value, findings }
  const refused = { kind: 'refused', code: 'validation_failed', ...common } as const
  // A request without an app key is no repeat of another.
  if (appKey === null) return { ...refused, appKey: null, events: null }
  const root = reading.value as JsonObject
  const typeCounts = { track: 0, screen: 0, revenue: 0 }
  const members = checkMembers(root, '', BODY, { body, findings, nowMs, typeCounts })
  if (findings.total > 0) {
    const events = root.members.find(({ key }) => key === 'events')?.value ?? null
    return { ...refused, appKey: appKey.text, events }
  }
  const sdkVersion = (members.get('sdk_version') as JsonString | undefined) ?? null
  return {
    kind: 'fits',
    root,
    envelope: { appKey, sdkVersion, events: members.get('events') as JsonArray, typeCounts },
  }
}

/** The body's app key; null: it has none, or not a usable one. */
function findAppKey(root: JsonValue, givenKey: string | null, findings: Findings): JsonString | null {
  if (root.kind !== 'object') {
    findings.add('body', 'must be an object', bracketOf(root))
    return null
  }
  if (givenKey !== null) return { kind: 'string', start: 0, end: 0, text: givenKey }
  const [first, second] = root.members.filter((member) => member.key === 'app_key')
  if (first === undefined) findings.add('app_key', 'required', bracketOf(root))
  else if (first.value.kind !== 'string') findings.add('app_key', 'must be a string', first)
  else if (second !== undefined) findings.add('app_key', 'must appear once', second)
  else return first.value
  return null
}

/** Where what is missing would be. */
function bracketOf({ start }: JsonValue): Span {
  return { start, end: start + 1 }
}

/** Of a body that may be refused for it: a repeat or a wrong type does not matter here. */
function shownVersionOf(root: JsonValue): string | null {
  if (root.kind !== 'object') return null
  const value = root.members.find((member) => member.key === 'sdk_version')?.value
  return value?.kind === 'string' && value.text.length <= MAX_SDK_VERSION_CHARACTERS ? value.text : null
}

/** Shared by the checks of one body. */
interface Examined {
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

const BODY: Schema = new Map([
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
function checkMembers(object: JsonObject, path: string, schema: Schema, examined: Examined): Map<string, JsonValue> {
  const { findings } = examined
  const prefix = path === '' ? '' : `${path}.`
  const found = new Map<string, JsonValue>()
  for (const member of object.members) {
    if (findings.full) return found
    const { key, value } = member
    const rule = schema.get(key)
    if (rule === undefined) continue
    if (found.has(key)) {
      findings.add(prefix + key, 'must appear once', member)
      continue
    }
    found.set(key, value)
    rule.check(value, prefix + key, member, examined)
  }
  for (const [key, rule] of schema) {
    if (rule.required && !found.has(key)) findings.add(prefix + key, 'required', bracketOf(object))
  }
  return found
}

function checkEvents(value: JsonValue, path: string, span: Span, examined: Examined): void {
  if (value.kind !== 'array') return examined.findings.add(path, 'must be an array', span)
  for (const [index, item] of value.items.entries()) {
    if (examined.findings.full) return
    if (index === MAX_EVENTS) return examined.findings.add(path, `at most ${MAX_EVENTS} items`, span)
    checkEvent(item, `${path}[${index}]`, item, examined)
  }
}

function checkEvent(value: JsonValue, path: string, span: Span, examined: Examined): void {
  if (value.kind !== 'object') return examined.findings.add(path, 'must be an object', span)
  const found = checkMembers(value, path, EVENT, examined)
  const type = found.get('type')
  // Last, since `revenue` is the last member of the schema.
  if (type?.kind === 'string' && type.text === 'revenue' && !found.has('revenue')) {
    examined.findings.add(`${path}.revenue`, 'required', bracketOf(value))
  }
}

function checkContext(value: JsonValue, path: string, span: Span, examined: Examined): void {
  if (value.kind !== 'object') return examined.findings.add(path, 'must be an object', span)
  checkMembers(value, path, CONTEXT, examined)
}

function checkType(value: JsonValue, path: string, span: Span, examined: Examined): void {
  const type = value.kind === 'string' ? EVENT_TYPES.find((name) => name === value.text) : undefined
  if (type === undefined) examined.findings.add(path, `must be one of ${EVENT_TYPES.join(', ')}`, span)
  else examined.typeCounts[type] += 1
}

function checkNumber(value: JsonValue, path: string, span: Span, examined: Examined): void {
  if (value.kind !== 'number') examined.findings.add(path, 'must be a number', span)
}

function checkTimestamp(value: JsonValue, path: string, span: Span, examined: Examined): void {
  const { findings, nowMs } = examined
  if (value.kind !== 'string') return findings.add(path, 'must be a string', span)
  const timeMs = parseTimestamp(value.text)
  if (timeMs === null) return findings.add(path, 'must be an ISO 8601 date and time', span)
  if (timeMs < nowMs - MAX_EVENT_AGE_MS || timeMs > nowMs + MAX_EVENT_LEAD_MS) {
    findings.add(path, 'must lie between 72 hours in the past and 1 hour in the future', span)
  }
}

/** `properties` and `revenue`. Their keys come from the client, so a path has a member's place in place of its name. */
function checkKeyValues(value: JsonValue, path: string, span: Span, examined: Examined): void {
  if (value.kind !== 'object') return examined.findings.add(path, 'must be an object', span)
  for (const [index, member] of value.members.entries()) {
    if (index === MAX_KEYS) return examined.findings.add(path, `at most ${MAX_KEYS} keys`, span)
    if (!isLong(member.value, examined.body)) continue
    examined.findings.add(`${path}[${index}]`, `at most ${MAX_VALUE_CHARACTERS} characters`, member, member.key)
  }
}

function text(minimum: number, maximum: number): Check {
  const reason =
    maximum === Number.POSITIVE_INFINITY
      ? `length must be at least ${minimum}`
      : `length must be ${minimum} to ${maximum}`
  return (value, path, span, { findings }) => {
    if (value.kind !== 'string') return findings.add(path, 'must be a string', span)
    const characters = countCodePoints(value.text)
    if (characters < minimum || characters > maximum) findings.add(path, reason, span)
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

/** The members that the schema does not name, as sent but on one line; null: none. */
function extrasOf(body: Uint8Array, root: JsonObject): string | null {
  const extras = root.members.filter((member) => !BODY.has(member.key))
  if (extras.length === 0) return null
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  const asSent = extras.map((member) => bytes.toString('utf8', member.start, member.end))
  // In valid JSON a line break is always white space between tokens.
  return asSent.join(',').replace(/[\r\n]/g, ' ')
}
