// The reference validation of a body, by its grammar and its schema. It runs only on bodies that the scanner did not
// accept, decides on them, and names the wrong member.

import { EVENT_TYPES, MAX_ERRORS_COUNTED, MAX_ERRORS_LISTED, MAX_SDK_VERSION_CHARACTERS } from '../contract/bounds.ts'
import type { ErrorCode } from '../contract/outcome.ts'
import { FIELD } from '../ring/layout.ts'
import { Findings, namedPathOf, textOf } from './findings.ts'
import { type JsonArray, type JsonObject, type JsonString, type JsonValue, readJson } from './json.ts'
import { BODY, bracketOf, checkMembers, type EventType } from './schema.ts'
import { shapeOf } from './shape.ts'
import type { Refused, Validation } from './verdict.ts'

/** Members of `properties` and `revenue` are named by their names here, since the body is the reader's own. */
export interface Violation {
  readonly path: string
  readonly message: string
  readonly code: ErrorCode
  /** The place of its event; null: it is outside of `events`. */
  readonly event: number | null
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
      /** Without these events the body would fit; null: it would not. */
      readonly invalidEvents: readonly number[] | null
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
    const errors = root === null ? null : { json: errorsJson(findings), shape: shapeOf(findings.listed[0], root) }
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

/** The members of an answer that name what is wrong. */
function errorsJson({ listed, total, invalidEvents }: Findings): string {
  const errors = listed.map(({ path, message, code, event }) => ({
    path,
    message,
    code,
    ...(event !== null && { event }),
  }))
  const events = invalidEvents !== null && { invalid_events: invalidEvents }
  return JSON.stringify({ errors, errors_total: total, ...events }).slice(1, -1)
}

/** `givenKey`: in place of the body's own; null: the body's own. */
export function violations(body: Uint8Array, nowMs: number, givenKey: string | null): Violations {
  const result = examine(body, nowMs, MAX_ERRORS_COUNTED, givenKey)
  if (result.kind === 'refused') {
    const { code, appKey, findings } = result
    const found = findings.listed.map((finding) => {
      const { start, end } = code === 'invalid_json' ? { start: null, end: null } : finding.span
      const { message, code: error, event } = finding
      return { path: namedPathOf(finding), message, code: error, event, start, end }
    })
    const invalidEvents = code === 'invalid_json' ? null : findings.invalidEvents
    return { code, appKey, message: textOf(findings.listed[0]), found, invalidEvents }
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
    findings.add('format', 'body', reading.problem, { start: 0, end: 0 })
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
    findings.add('type', 'body', 'must be an object', bracketOf(root))
    return null
  }
  if (givenKey !== null) return { kind: 'string', start: 0, end: 0, text: givenKey }
  const [first, second] = root.members.filter((member) => member.key === 'app_key')
  if (first === undefined) findings.add('required', 'app_key', 'required', bracketOf(root))
  else if (first.value.kind !== 'string') findings.add('type', 'app_key', 'must be a string', first)
  else if (second !== undefined) findings.add('repeated', 'app_key', 'must appear once', second)
  else return first.value
  return null
}

/** Of a body that may be refused for it: a repeat or a wrong type does not matter here. */
function shownVersionOf(root: JsonValue): string | null {
  if (root.kind !== 'object') return null
  const value = root.members.find((member) => member.key === 'sdk_version')?.value
  return value?.kind === 'string' && value.text.length <= MAX_SDK_VERSION_CHARACTERS ? value.text : null
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
