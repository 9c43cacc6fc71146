// @ts-check
// Holds what the queue has against the limits of the apps: by minute and day of UTC as the service stamped it, and in all.

import { enforcedMonth, limitRecords } from '../k6/shared/limit-apps.js'
import { NOT_READ, readRecords } from './queue-records.js'

/** @typedef {import('../k6/shared/limit-apps.js').LimitedRecord} LimitedRecord */
/** @typedef {{ events: number, minutes: Map<number, number>, days: Map<number, number> }} Accepted */
/** @typedef {{ appId: string, perMinute: number, perDay?: number | undefined, perMonth?: number | undefined }} AppLimits */

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

/** What was accepted of each app, by id. Windows are named by the Unix ms of their start. */
export class AcceptedEvents {
  /** @type {Map<string, Accepted>} */
  byApp = new Map()

  /** @param {{ app_id: string, received_at: string, events: readonly unknown[] }} record */
  add({ app_id: appId, received_at: receivedAt, events }) {
    const atMs = Date.parse(receivedAt)
    if (!Number.isFinite(atMs)) throw new Error(`a record of ${appId} has no time: ${receivedAt}`)
    const found = this.of(appId)
    this.byApp.set(appId, found)
    found.events += events.length
    addTo(found.minutes, atMs - (atMs % MINUTE_MS), events.length)
    addTo(found.days, atMs - (atMs % DAY_MS), events.length)
  }

  /** @param {string} appId @returns {Accepted} */
  of(appId) {
    return this.byApp.get(appId) ?? { events: 0, minutes: new Map(), days: new Map() }
  }
}

/** @param {Map<number, number>} map @param {number} key @param {number} amount */
function addTo(map, key, amount) {
  map.set(key, (map.get(key) ?? 0) + amount)
}

/**
 * One sentence for each window in which an app had more than it may. `perMonth` is as enforced, with its tenth, and is held
 * against all that the queue has: give it only where the queue is no older than the run.
 * @param {AcceptedEvents} accepted @param {readonly AppLimits[]} apps @returns {string[]}
 */
export function windowsOverLimit(accepted, apps) {
  const faults = []
  for (const { appId, perMinute, perDay, perMonth } of apps) {
    const { minutes, days, events } = accepted.of(appId)
    for (const [startMs, count] of minutes) {
      if (count > perMinute)
        faults.push(`${appId}: ${count} events of ${perMinute} in the minute ${isoMinute(startMs)}`)
    }
    for (const [startMs, count] of days) {
      if (perDay !== undefined && count > perDay) {
        faults.push(`${appId}: ${count} events of ${perDay} on ${isoMinute(startMs).slice(0, 10)}`)
      }
    }
    if (perMonth !== undefined && events > perMonth) {
      faults.push(`${appId}: ${events} events of ${perMonth} in the month`)
    }
  }
  return faults
}

/** @param {number} atMs */
function isoMinute(atMs) {
  return new Date(atMs).toISOString().slice(0, 16)
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
  const accepted = new AcceptedEvents()
  for await (const record of readRecords(queue)) accepted.add(record)
  const { eventsPerMinute } = report.found
  const apps = limitRecords(eventsPerMinute).map(limitsOf)
  // A queue that is older than the run may hold another month.
  const isFresh = dataDir !== undefined
  const faults = windowsOverLimit(accepted, isFresh ? apps : apps.map((app) => ({ ...app, perMonth: undefined })))
  const lines = apps.map(({ appId }) => {
    const { events, minutes } = accepted.of(appId)
    return `${appId}: ${events} events in the queue, ${[...minutes.values()].join(' + ')} by minute`
  })
  const stored = [...accepted.byApp.values()].reduce((sum, { events }) => sum + events, 0)
  if (isFresh && stored !== report.events) faults.push(`${stored} events in the queue, ${report.events} were accepted`)
  return { lines, faults }
}
