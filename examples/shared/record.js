// Reads one line of the queue. A line that is no record this program knows is a value with a reason, never an exception.

/**
 * @typedef {object} QueueLine      One line, and where it stood.
 * @property {string} partition     Number of the stream's subject; `journal` where the queue is embedded.
 * @property {bigint} sequence      Of the message in the stream; of the line in the journal (journal.js).
 * @property {string} text
 *
 * @typedef {object} QueueRecord    One accepted request.
 * @property {QueueLine} line
 * @property {string} batchId
 * @property {string} appId
 * @property {number} receivedMs    Unix ms.
 * @property {string | null} sdkVersion
 * @property {QueueEvent[]} events
 *
 * @typedef {object} QueueEvent
 * @property {string} text          As the client sent it: its numbers are not rounded.
 * @property {string | null} type
 * @property {string | null} name
 * @property {string | null} eventId
 * @property {number | null} happenedMs  Its `timestamp`.
 */

/** ISO 8601 as the service takes it: no zone means UTC, which `Date.parse` would read as local time. */
const TIMESTAMP = /^(\d{4}-\d\d-\d\dT\d\d:\d\d)(:\d\d(?:\.\d+)?)?(?:Z|([+-]\d\d):?(\d\d))?$/i

/**
 * @param {QueueLine} line
 * @returns {{ record: QueueRecord } | { problem: string }}
 */
export function parseRecord(line) {
  let value
  try {
    value = JSON.parse(line.text)
  } catch {
    return { problem: 'not JSON' }
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { problem: 'not an object' }
  // Another version may give the same names another meaning: keep it for a program that knows it.
  if (value.v !== 1) return { problem: `version ${JSON.stringify(value.v)?.slice(0, 20)} is unknown` }
  const { batch_id: batchId, app_id: appId, received_at: receivedAt, events } = value
  const receivedMs = typeof receivedAt === 'string' ? parseTime(receivedAt) : null
  if (typeof batchId !== 'string' || batchId === '') return { problem: 'batch_id is no string' }
  if (typeof appId !== 'string' || appId === '') return { problem: 'app_id is no string' }
  if (receivedMs === null) return { problem: 'received_at is no time' }
  if (!Array.isArray(events)) return { problem: 'events is no array' }
  const texts = elementTexts(line.text, 'events')
  return {
    record: {
      line,
      batchId: batchId.toWellFormed(),
      appId: appId.toWellFormed(),
      receivedMs,
      sdkVersion: stringOrNull(value.sdk_version),
      events: events.map((event, index) => eventOf(event, texts[index])),
    },
  }
}

/**
 * Members that are not known, or of another type than expected, stop nothing: all are in `text`.
 *
 * @param {any} event
 * @param {string} text
 * @returns {QueueEvent}
 */
function eventOf(event, text) {
  const { type, name, timestamp, event_id: eventId } = event ?? {}
  return {
    text,
    type: stringOrNull(type),
    name: stringOrNull(name),
    // A lone surrogate would become U+FFFD, and two ids one: such an id is kept in its JSON spelling.
    eventId: typeof eventId !== 'string' || eventId.isWellFormed() ? stringOrNull(eventId) : JSON.stringify(eventId),
    happenedMs: typeof timestamp === 'string' ? parseTime(timestamp) : null,
  }
}

/** What is no text that a database takes (a lone surrogate, `"\ud800"`) becomes U+FFFD. @param {unknown} value */
function stringOrNull(value) {
  return typeof value === 'string' && value !== '' ? value.toWellFormed() : null
}

/** Unix ms, or null. @param {string} text */
export function parseTime(text) {
  const found = TIMESTAMP.exec(text)
  if (found === null) return null
  const [, minute, seconds = ':00', zoneHours, zoneMinutes] = found
  const ms = Date.parse(`${minute}${seconds}${zoneHours === undefined ? 'Z' : `${zoneHours}:${zoneMinutes}`}`)
  return Number.isNaN(ms) ? null : ms
}

/**
 * The text of each element of the array `member` of an object. `text` must be valid JSON.
 *
 * @param {string} text
 * @param {string} member
 */
function elementTexts(text, member) {
  /** @type {string[]} */
  let elements = []
  let at = skipSpace(text, 0) + 1
  while (text[(at = skipSpace(text, at))] !== '}') {
    const nameEnd = valueEnd(text, at)
    const name = JSON.parse(text.slice(at, nameEnd))
    // Past the colon.
    at = skipSpace(text, skipSpace(text, nameEnd) + 1)
    const end = valueEnd(text, at)
    if (name === member && text[at] === '[') elements = splitArray(text, at)
    at = skipSpace(text, end)
    if (text[at] === ',') at += 1
  }
  return elements
}

/** @param {string} text @param {number} arrayAt */
function splitArray(text, arrayAt) {
  const elements = []
  let at = skipSpace(text, arrayAt + 1)
  while (text[at] !== ']') {
    const end = valueEnd(text, at)
    elements.push(text.slice(at, end))
    at = skipSpace(text, end)
    if (text[at] === ',') at = skipSpace(text, at + 1)
  }
  return elements
}

/** Index behind the value that begins at `at`. @param {string} text @param {number} at */
function valueEnd(text, at) {
  let depth = 0
  for (let index = at; index < text.length; index += 1) {
    const character = text[index]
    if (character === '"') index = stringEnd(text, index)
    else if (character === '{' || character === '[') depth += 1
    else if (character === '}' || character === ']') depth -= 1
    else if (depth > 0 || !/[\s,:}\]]/.test(text[index + 1] ?? ',')) continue
    if (depth === 0) return index + 1
  }
  return text.length
}

/** Index of the quote that closes the string which `quoteAt` opens. @param {string} text @param {number} quoteAt */
function stringEnd(text, quoteAt) {
  for (let end = text.indexOf('"', quoteAt + 1); ; end = text.indexOf('"', end + 1)) {
    let backslashes = 0
    while (text[end - 1 - backslashes] === '\\') backslashes += 1
    if (backslashes % 2 === 0) return end
  }
}

/** @param {string} text @param {number} at */
function skipSpace(text, at) {
  let index = at
  while (text[index] === ' ' || text[index] === '\t' || text[index] === '\n' || text[index] === '\r') index += 1
  return index
}
