// The ids of a user, for events that no device sends (docs/ids.md).

import { createHmac } from 'node:crypto'

const RETENTION_MS = 90 * 86_400_000

/**
 * The ids of a user for an event at that time: the same on every server, and different in each period.
 *
 * @param {string} secret  At least 32 random bytes. Who has it can tell which id is whose.
 * @param {string} userId
 * @param {Date} happenedAt
 */
export function idsOf(secret, userId, happenedAt) {
  const day = happenedAt.toISOString().slice(0, 10)
  const hash = (/** @type {string} */ period) =>
    createHmac('sha256', secret)
      .update(JSON.stringify([period, userId]))
      .digest('hex')
  return {
    hashed_daily_id: hash(`day ${day}`), // day 2026-11-23
    hashed_monthly_id: hash(`month ${day.slice(0, 7)}`), // month 2026-11
    hashed_retention_id: hash(`90 days, number ${Math.floor(happenedAt.getTime() / RETENTION_MS)}`),
  }
}
