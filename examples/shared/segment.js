// A message of a Segment library as an event of sluice; docs/coming-from.md has the table. What the service checks is not
// checked here.

import { idsOf } from './ids.js'

/** The service takes 64 levels, of which the body and its array of events are two. */
const MAX_EVENT_LEVELS = 62
/** A library names its messages with some 60 characters. What it sent is repeated to it, but not at any length. */
const MAX_SHOWN_ID_CHARACTERS = 200

/**
 * @typedef {Record<string, any>} Message  As a library sent it.
 *
 * @typedef {object} Mapped
 * @property {unknown} messageId
 * @property {string} text           The event in JSON.
 * @property {boolean} isRepeatable  Whether the same message always becomes the same bytes.
 */

/**
 * @param {unknown} value
 * @param {string} secret   For the ids.
 * @param {string} now      Where the message has no time of its own.
 * @param {Record<string, any>} [sharedContext]  What the context lacks, for all messages of a batch.
 * @returns {Mapped | { messageId: unknown, problem: string }}
 */
export function toEvent(value, secret, now, sharedContext = {}) {
  /** @type {Message} */
  const message = objectOr(value)
  const { messageId, userId, anonymousId } = message
  const who = idOf(userId) ?? idOf(anonymousId)
  if (who === undefined) return { messageId, problem: 'userId or anonymousId: required' }
  const kind = kindOf(message)
  if (kind === null) return { messageId, problem: 'type: must be track, page, screen, identify, group or alias' }
  const sentTime = message.timestamp ?? message.originalTimestamp
  // One that is neither text nor number is left to the service: to make a text of a value of any depth can fail.
  const timestamp = idOf(sentTime) ?? sentTime ?? now
  const happenedMs = typeof timestamp === 'string' ? Date.parse(timestamp) : Number.NaN
  // The service refuses a time that is none; the ids have to be of some day all the same.
  const ids = idsOf(secret, who, new Date(Number.isNaN(happenedMs) ? now : happenedMs))
  const event = known({
    ...kind,
    ...ids,
    user_id: idOf(userId),
    session_id: ids.hashed_daily_id,
    timestamp,
    context: contextOf({ ...sharedContext, ...objectOr(message.context) }),
    event_id: messageId,
    segment_type: message.type,
    group_id: idOf(message.groupId),
    previous_id: idOf(message.previousId),
  })
  if (isDeeper(event, MAX_EVENT_LEVELS)) return { messageId, problem: 'nested too deeply' }
  const text = JSON.stringify(event)
  return { messageId, text, isRepeatable: typeof messageId === 'string' && idOf(sentTime) !== undefined }
}

/**
 * The members that are used of a context which all messages of a batch have, taken once: it may have very many others.
 * null: what is left is longer than so many bytes, and would be written once for each message.
 *
 * @param {unknown} context
 * @param {number} maxBytes
 */
export function sharedContextOf(context, maxBytes) {
  const { os, app, device, screen, locale, userAgent, page, campaign, library } = objectOr(context)
  const used = known({ os, app, device, screen, locale, userAgent, page, campaign, library })
  if (isDeeper(used, MAX_EVENT_LEVELS) || Buffer.byteLength(JSON.stringify(used)) > maxBytes) return null
  return used
}

/** How a message is named to who sent it; undefined: it has no id, or none of that kind. @param {unknown} messageId */
export function shownId(messageId) {
  return typeof messageId === 'string' && messageId.length <= MAX_SHOWN_ID_CHARACTERS ? messageId : undefined
}

/** What sluice has no type for becomes a track event with the call's name. @param {Message} message */
function kindOf({ type, event, name, properties, traits }) {
  const { revenue, currency } = objectOr(properties)
  switch (type) {
    case 'track':
      if (typeof revenue !== 'number') return { type, name: event, properties }
      return { type: 'revenue', name: event, properties, revenue: known({ amount: revenue, currency }) }
    case 'page':
    case 'screen':
      return { type: 'screen', name: name || type, properties }
    case 'identify':
    case 'group':
    case 'alias':
      return { type: 'track', name: type, properties: traits }
    default:
      return null
  }
}

/** Addresses, places and ids of devices are left out. @param {Record<string, any>} context */
function contextOf({ os, app, device, screen, locale, userAgent, page, campaign, library }) {
  return known({
    os: objectOr(os).name ?? (userAgent ? 'web' : 'server'),
    os_version: objectOr(os).version,
    app_version: objectOr(app).version,
    device_type: objectOr(device).model ?? objectOr(device).type,
    screen_width: objectOr(screen).width,
    screen_height: objectOr(screen).height,
    locale,
    page,
    campaign,
    library,
  })
}

/** Libraries send null for what they do not know; to the service null is a value of the wrong type. @param {object} members */
function known(members) {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined && value !== null))
}

/** @param {unknown} value @returns {Record<string, any>} */
function objectOr(value) {
  return typeof value === 'object' && value !== null ? value : {}
}

/** @param {unknown} value @returns {string | undefined} */
function idOf(value) {
  return typeof value === 'number' || (typeof value === 'string' && value !== '') ? String(value) : undefined
}

/** Whether objects and arrays are nested in more levels than these. @param {unknown} value @param {number} levels @returns {boolean} */
function isDeeper(value, levels) {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((each) => isDeeper(each, levels - 1))
}
