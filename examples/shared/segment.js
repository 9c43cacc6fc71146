// A message of a Segment library as an event of sluice; docs/coming-from.md has the table. What the service checks is not
// checked here.

import { idsOf } from './ids.js'

/**
 * @typedef {Record<string, any>} Message  As a library sent it.
 *
 * @typedef {object} Mapped
 * @property {unknown} messageId
 * @property {string} text           The event in JSON.
 * @property {boolean} isRepeatable  Whether the same message always becomes the same bytes.
 */

/**
 * @param {Message} message
 * @param {string} secret   For the ids.
 * @param {string} now      Where the message has no time of its own.
 * @returns {Mapped | { messageId: unknown, problem: string }}
 */
export function toEvent(message, secret, now) {
  const { messageId, userId, anonymousId } = message
  const who = idOf(userId) ?? idOf(anonymousId)
  if (who === undefined) return { messageId, problem: 'userId or anonymousId: required' }
  const kind = kindOf(message)
  if (kind === null) return { messageId, problem: 'type: must be track, page, screen, identify, group or alias' }
  const sentTime = message.timestamp ?? message.originalTimestamp
  const timestamp = String(sentTime ?? now)
  const happenedMs = Date.parse(timestamp)
  // The service refuses a time that is none; the ids have to be of some day all the same.
  const ids = idsOf(secret, who, new Date(Number.isNaN(happenedMs) ? now : happenedMs))
  const event = {
    ...kind,
    ...ids,
    user_id: idOf(userId),
    session_id: ids.hashed_daily_id,
    timestamp,
    context: contextOf(objectOr(message.context)),
    event_id: messageId,
    segment_type: message.type,
    group_id: idOf(message.groupId),
    previous_id: idOf(message.previousId),
  }
  try {
    const text = JSON.stringify(known(event))
    return { messageId, text, isRepeatable: typeof messageId === 'string' && idOf(sentTime) !== undefined }
  } catch {
    // JSON.parse takes any depth, JSON.stringify some thousand levels.
    return { messageId, problem: 'nested too deeply' }
  }
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
