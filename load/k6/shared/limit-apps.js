// @ts-check
// The apps of the script `limits`: what each may send, and what its client is told once it has sent that.
// Plain JavaScript with no imports, so that Node and k6 both run it.

/**
 * @typedef {{ app_key: string, app_id: string, plan: string, subscription: string, events_per_minute: number,
 *   events_per_day?: number, events_per_month?: number, billing_cycle_anchor?: string }} LimitedRecord
 */
/**
 * @typedef {object} SmallApp an app whose day or month is soon used up
 * @property {LimitedRecord} record
 * @property {string} code the error it meets then
 * @property {number} allowed events until then
 */

/** Their minutes are wide open, so that only the day or the month can refuse. */
const OPEN_MINUTE = 1_000_000
const SMALL = 40
const ANCHOR_DAY = 17

/** @param {string} name @param {Omit<LimitedRecord, 'app_key' | 'app_id' | 'subscription'>} rest @returns {LimitedRecord} */
function record(name, rest) {
  return { app_key: `ak_load_limits_${name}`, app_id: `load-limits-${name}`, subscription: 'active', ...rest }
}

/** Sends at a multiple of its plan, whatever it is told. @param {number} eventsPerMinute */
export function greedyApp(eventsPerMinute) {
  return record('greedy', { plan: '5m', events_per_minute: eventsPerMinute })
}

/** Sends at a multiple of its plan until it is refused, and then does what Retry-After says. @param {number} eventsPerMinute */
export function obedientApp(eventsPerMinute) {
  return record('obedient', { plan: '5m', events_per_minute: eventsPerMinute })
}

/** @returns {SmallApp[]} */
export function smallApps() {
  return [
    small('day', 'daily_limit_exceeded', SMALL, { plan: '5m', events_per_day: SMALL }),
    // A paid plan has a tenth on top of its month, the trial has not.
    small('month', 'monthly_limit_exceeded', SMALL + SMALL / 10, { plan: '10k', events_per_month: SMALL }),
    small('trial', 'monthly_limit_exceeded', SMALL, { plan: 'trial', events_per_month: SMALL }),
    small('cycle', 'monthly_limit_exceeded', SMALL + SMALL / 10, {
      plan: '10k',
      events_per_month: SMALL,
      billing_cycle_anchor: `2026-01-${ANCHOR_DAY}T06:30:00Z`,
    }),
  ]
}

/** @param {string} name @param {string} code @param {number} allowed @param {Partial<LimitedRecord> & { plan: string }} rest @returns {SmallApp} */
function small(name, code, allowed, rest) {
  return { record: record(name, { events_per_minute: OPEN_MINUTE, ...rest }), code, allowed }
}

/** @param {number} eventsPerMinute @returns {LimitedRecord[]} */
export function limitRecords(eventsPerMinute) {
  return [greedyApp(eventsPerMinute), obedientApp(eventsPerMinute), ...smallApps().map((app) => app.record)]
}

/**
 * When the window ends that a refusal is about, in Unix seconds.
 * @param {LimitedRecord} record @param {string} code @param {number} nowMs
 */
export function windowEndSeconds(record, code, nowMs) {
  if (code === 'rate_limit_exceeded') return Math.floor(nowMs / 60_000) * 60 + 60
  if (code === 'daily_limit_exceeded') return Math.floor(nowMs / 86_400_000) * 86_400 + 86_400
  const now = new Date(nowMs)
  const anchor = new Date(record.billing_cycle_anchor ?? '2026-01-01T00:00:00Z')
  // The day of the anchor is one that every month has.
  const startMs = (/** @type {number} */ month) =>
    Date.UTC(now.getUTCFullYear(), month, anchor.getUTCDate(), anchor.getUTCHours(), anchor.getUTCMinutes())
  const thisMonth = startMs(now.getUTCMonth())
  return (nowMs < thisMonth ? thisMonth : startMs(now.getUTCMonth() + 1)) / 1000
}

/** Events of a month as it is enforced; undefined: none of this app's own. @param {{ plan: string, events_per_month?: number }} record */
export function enforcedMonth({ plan, events_per_month: sold }) {
  if (sold === undefined || plan === 'trial') return sold
  return sold + Math.floor(sold / 10)
}
