// @ts-check
// Holds the queue against a run of the script `mixed`: each app's windows against its limits, nothing from apps that may not send,
// and in all what was answered 202.

import { makeFleet } from '../k6/shared/fleet.js'
import { enforcedMonth } from '../k6/shared/limit-apps.js'
import { NOT_READ, readRecords } from './queue-records.js'
import { AcceptedEvents, windowsOverLimit } from './verify-limits.js'

const MOST_FAULTS = 20
const MAY_SEND = new Set(['within', 'minute', 'day', 'month'])

/** @typedef {import('../k6/shared/fleet.js').FleetApp} FleetApp */

/**
 * What is wrong with what the queue has of a fleet. @param {AcceptedEvents} accepted @param {readonly FleetApp[]} fleet
 * @param {{ isFresh: boolean }} options `isFresh`: the queue has this run only @returns {string[]}
 */
export function faultsOfFleet(accepted, fleet, { isFresh }) {
  const limits = fleet.flatMap(({ record }) => {
    if (record === null) return []
    const { app_id: appId, events_per_minute: perMinute = Infinity, events_per_day: perDay } = record
    return [{ appId, perMinute, perDay, perMonth: isFresh ? enforcedMonth(record) : undefined }]
  })
  const faults = windowsOverLimit(accepted, limits)
  if (!isFresh) return faults
  const kinds = new Map(fleet.map(({ record, kind }) => [record?.app_id, kind]))
  for (const [appId, { events }] of accepted.byApp) {
    const kind = kinds.get(appId)
    if (kind === undefined || !MAY_SEND.has(kind))
      faults.push(`${appId} may not send, and has ${events} events in the queue`)
  }
  return faults
}

/** @param {import('./verify.js').Run} run @returns {Promise<import('./verify.js').Found>} */
export async function verify({ queue, report, dataDir }) {
  if (queue === null) return { lines: [], faults: [], voids: [NOT_READ] }
  const isFresh = dataDir !== undefined
  const accepted = new AcceptedEvents()
  for await (const record of readRecords(queue)) accepted.add(record)
  const faults = faultsOfFleet(accepted, makeFleet(report.found.fleet), { isFresh })
  const all = [...accepted.byApp.values()]
  const events = all.reduce((sum, each) => sum + each.events, 0)
  const records = all.reduce((sum, each) => sum + each.records, 0)
  const lines = [
    `${records} records and ${events} events of ${all.length} apps in the queue, ${report.events} events accepted`,
  ]
  const unanswered = report.outcomes.some((/** @type {{ code: string }} */ { code }) => code === 'no_answer')
  // What was not answered may be in the queue all the same.
  const isComplete = unanswered ? events >= report.events : events === report.events
  if (isFresh && !isComplete) faults.push('the queue has other than what was accepted')
  return { lines, faults: faults.slice(0, MOST_FAULTS) }
}
