// @ts-check
// Holds what the queue has against the limits of the apps: by minute and day of UTC as the service stamped it, and in all.

import { enforcedMonth, limitRecords } from '../k6/shared/limit-apps.js'
import { byWindow, DAY_MS, eventsOf, MINUTE_MS } from '../shared/windows.js'
import { NOT_READ, readRecords } from './queue-records.js'

/** @typedef {import('../k6/shared/limit-apps.js').LimitedRecord} LimitedRecord */
/** @typedef {{ appId: string, perMinute: number, perDay?: number | undefined, perMonth?: number | undefined }} AppLimits */
/** @typedef {import('../shared/windows.js').Stored} Stored */

/** @param {{ app_id: string, received_at: string, events: readonly unknown[] }} record @returns {Stored} */
export function storedOf({ app_id: appId, received_at: receivedAt, events }) {
  const receivedAtMs = Date.parse(receivedAt)
  if (!Number.isFinite(receivedAtMs)) throw new Error(`a record of ${appId} has no time: ${receivedAt}`)
  return { appId, receivedAtMs, events: events.length }
}

/**
 * One sentence for each window in which an app had more than it may. `perMonth` is as enforced, with its tenth, and is held
 * against all that the queue has: give it only where the queue is no older than the run.
 * @param {readonly Stored[]} stored @param {readonly AppLimits[]} apps @returns {string[]}
 */
export function windowsOverLimit(stored, apps) {
  return apps.flatMap(({ appId, perMinute, perDay = Infinity, perMonth = Infinity }) => {
    const own = stored.filter((record) => record.appId === appId)
    const over = (
      /** @type {number} */ lengthMs,
      /** @type {number} */ limit,
      /** @type {(start: string) => string} */ where,
    ) =>
      [...byWindow(own, lengthMs)]
        .map(([startMs, found]) => ({ start: new Date(startMs).toISOString(), events: eventsOf(found) }))
        .filter(({ events }) => events > limit)
        .map(({ start, events }) => `${appId}: ${events} events of ${limit} ${where(start)}`)
    return [
      ...over(MINUTE_MS, perMinute, (start) => `in the minute ${start.slice(0, 16)}`),
      ...over(DAY_MS, perDay, (start) => `on ${start.slice(0, 10)}`),
      ...over(Infinity, perMonth, () => 'in the month'),
    ]
  })
}

/** What an app may have, from its record. @param {LimitedRecord} record @returns {AppLimits} */
function limitsOf(record) {
  return {
    appId: record.app_id,
    perMinute: record.events_per_minute,
    perDay: record.events_per_day,
    perMonth: enforcedMonth(record),
  }
}

/** @param {import('./verify.js').Run} run @returns {Promise<import('./verify.js').Found>} */
export async function verifyLimits({ queue, report, dataDir }) {
  if (queue === null) return { lines: [], faults: [], voids: [NOT_READ] }
  /** @type {Stored[]} */
  const stored = []
  for await (const record of readRecords(queue)) stored.push(storedOf(record))
  const { eventsPerMinute } = report.found
  const apps = limitRecords(eventsPerMinute).map(limitsOf)
  // A queue that is older than the run may hold another month.
  const isFresh = dataDir !== undefined
  const faults = windowsOverLimit(stored, isFresh ? apps : apps.map((app) => ({ ...app, perMonth: undefined })))
  const lines = apps.map(({ appId }) => {
    const own = stored.filter((record) => record.appId === appId)
    const minutes = [...byWindow(own, MINUTE_MS).values()].map(eventsOf)
    return `${appId}: ${eventsOf(own)} events in the queue, ${minutes.join(' + ')} by minute`
  })
  const all = eventsOf(stored)
  if (isFresh && all !== report.events) faults.push(`${all} events in the queue, ${report.events} were accepted`)
  return { lines, faults }
}
