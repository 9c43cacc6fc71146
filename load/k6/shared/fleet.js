// @ts-check
// A fleet of apps as a service has them: a few large and many small by Zipf's law, each on the plan that its traffic needs, and
// some that are over their limits, inactive or unknown. The same seed gives the same fleet. Pure.

import { createRng } from '../../payloads.js'
import { readSettings } from './settings.js'
import { createPicker, zipfShares } from './zipf.js'

/** @typedef {'within' | 'minute' | 'day' | 'month' | 'inactive' | 'expired' | 'unknown'} FleetClass */
/**
 * @typedef {{ app_key: string, app_id: string, plan: string, subscription: string, trial_ends_at?: string,
 *   events_per_minute?: number, events_per_day?: number, events_per_month?: number }} FleetRecord
 */
/**
 * @typedef {object} FleetApp
 * @property {string} appKey
 * @property {FleetClass} kind
 * @property {string} plan
 * @property {number} share of the fleet's requests
 * @property {FleetSender} sender
 * @property {FleetRecord | null} record null: nobody knows this key
 */
/** @typedef {{ sizes: readonly number[], shares: readonly number[], mean: number, meanSquare: number, most: number }} FleetSender */
/** @typedef {{ seed: number, apps: number, exponent: number, requestsPerSecond: number, minutes: number }} FleetOptions `requestsPerSecond`: at the top of a wave */

/** What each may be answered. @type {Readonly<Record<FleetClass, readonly import('./answers.js').Code[]>>} */
export const ANSWERS_OF_CLASS = {
  within: ['accepted'],
  minute: ['accepted', 'rate_limit_exceeded'],
  day: ['accepted', 'daily_limit_exceeded'],
  month: ['accepted', 'monthly_limit_exceeded'],
  inactive: ['subscription_inactive'],
  expired: ['trial_expired'],
  unknown: ['invalid_app_key'],
}
/** Of each class, a code that the run must have met. @type {Readonly<Record<FleetClass, import('./answers.js').Code>>} */
export const MARK_OF_CLASS = {
  within: 'accepted',
  minute: 'rate_limit_exceeded',
  day: 'daily_limit_exceeded',
  month: 'monthly_limit_exceeded',
  inactive: 'subscription_inactive',
  expired: 'trial_expired',
  unknown: 'invalid_app_key',
}

/** From the smallest to the largest, with what they allow a minute and a month. */
const PLANS = /** @type {const} */ ([
  ['trial', 200, 10_000],
  ['10k', 200, 10_000],
  ['100k', 500, 100_000],
  ['500k', 2000, 500_000],
  ['1m', 5000, 1_000_000],
  ['2m', 8000, 2_000_000],
  ['5m', 15_000, 5_000_000],
])
/** Every so many ranks, the same classes: each of them is found among the apps that send enough to be judged. */
const PERIOD = 40
const CLASS_OF_PLACE = /** @type {ReadonlyMap<number, FleetClass>} */ (
  new Map([
    [4, 'minute'],
    [9, 'inactive'],
    [14, 'month'],
    [19, 'expired'],
    [24, 'day'],
    [29, 'unknown'],
    [34, 'minute'],
  ])
)
const INACTIVE = ['canceled', 'unpaid', 'paused']
const TRIAL_SHARE = 0.4
const PAST_DUE_SHARE = 0.05
/** A phone flushes a few events at a time, a server as many as a request holds: in sizes for which the runner prepares bodies. The first tenth of the ranks are servers. */
const PHONE = senderOf([1, 5, 10, 25], [45, 30, 17, 8])
const SERVER = senderOf([1, 10, 25, 50, 100], [10, 20, 25, 25, 20])
const SERVER_RANKS = 0.1
export const FLEET_SIZES = [...new Set([...PHONE.sizes, ...SERVER.sizes])]
/** An app over its limit may have so much of what it sends. */
const OVER_SHARE = 1 / 3
/** How far chance can lift an app over its mean, in standard deviations, before it is held to be over its plan. */
const DEVIATIONS = 6

/** @param {readonly number[]} sizes @param {readonly number[]} weights @returns {FleetSender} */
function senderOf(sizes, weights) {
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  const shares = weights.map((weight) => weight / total)
  const meanOf = (/** @type {(size: number) => number} */ figure) =>
    sizes.reduce((sum, size, index) => sum + figure(size) * shares[index], 0)
  return {
    sizes,
    shares,
    mean: meanOf((size) => size),
    meanSquare: meanOf((size) => size ** 2),
    most: Math.max(...sizes),
  }
}

/** The settings of the script `mixed`, read alike by it and by those who write its apps. @param {import('./settings.js').Environment} environment */
export function readFleetSettings(environment) {
  const settings = readSettings(environment, { script: 'mixed' })
  const options = {
    seed: settings.seed,
    apps: settings.whole('APPS', PERIOD, 100_000),
    exponent: settings.number('ZIPF', 0, 3),
    requestsPerSecond: settings.rate,
    minutes: settings.durationMs / 60_000,
  }
  const waves = settings.whole('WAVES', 1, 100)
  settings.check()
  return { settings, options, waves }
}

/** @param {FleetOptions} options @returns {FleetApp[]} the busiest first */
export function makeFleet({ seed, apps: count, exponent, requestsPerSecond, minutes }) {
  const rng = createRng(seed)
  return zipfShares(count, exponent).map((share, rank) => {
    const kind = CLASS_OF_PLACE.get(rank % PERIOD) ?? 'within'
    const sender = rank < count * SERVER_RANKS ? SERVER : PHONE
    const requestsPerMinute = requestsPerSecond * 60 * share
    const name = `${kind}-${rank + 1}`
    const record = recordOf(kind, { name, requestsPerMinute, sender, minutes, rng })
    const isKnown = kind !== 'unknown'
    return { appKey: record.app_key, kind, plan: record.plan, share, sender, record: isKnown ? record : null }
  })
}

/**
 * @param {FleetClass} kind
 * @param {{ name: string, requestsPerMinute: number, sender: FleetSender, minutes: number, rng: () => number }} demand @returns {FleetRecord}
 */
function recordOf(kind, { name, requestsPerMinute, sender, minutes, rng }) {
  const busiest = mostEvents(requestsPerMinute, sender)
  const inAll = mostEvents(requestsPerMinute * minutes, sender)
  const plan = smallestPlan(busiest, inAll, rng)
  const record = {
    app_key: `ak_fleet_${name}`,
    app_id: `fleet-${name}`,
    plan: plan.name,
    ...plan.changes,
    ...stateOf(plan.name, rng),
  }
  const allowed = (/** @type {number} */ events) => Math.max(1, Math.floor(events * OVER_SHARE))
  const mean = requestsPerMinute * sender.mean
  switch (kind) {
    case 'minute':
      // A run that is shorter than a minute sends no minute's worth.
      return { ...record, events_per_minute: allowed(mean * Math.min(1, minutes)) }
    case 'day':
      return { ...record, events_per_day: allowed(mean * minutes) }
    case 'month':
      return { ...record, events_per_month: allowed(mean * minutes) }
    case 'inactive':
      return { ...record, subscription: INACTIVE[Math.floor(rng() * INACTIVE.length)] }
    case 'expired':
      return { ...record, plan: 'trial', subscription: 'trialing', trial_ends_at: '2026-01-01T00:00:00Z' }
    case 'within':
    case 'unknown':
      return record
  }
}

/**
 * More events than chance will ever make of so many requests on average: their sum has the variance of a compound Poisson.
 * @param {number} requests @param {FleetSender} sender
 */
function mostEvents(requests, { mean, meanSquare, most }) {
  return Math.ceil(requests * mean + DEVIATIONS * Math.sqrt(requests * meanSquare) + most)
}

/** @param {number} perMinute @param {number} perMonth @param {() => number} rng */
function smallestPlan(perMinute, perMonth, rng) {
  const fits = PLANS.filter(([, minute, month]) => minute >= perMinute && month >= perMonth)
  if (fits.length === 0) {
    // Larger than any plan that is on the list: such figures are agreed on one by one.
    const changes = { events_per_minute: perMinute, events_per_month: Math.max(perMonth, 5_000_000) }
    return { name: '5m', changes }
  }
  const [smallest, next] = fits
  return { name: smallest[0] === 'trial' && rng() >= TRIAL_SHARE ? next[0] : smallest[0], changes: {} }
}

/** @param {string} plan @param {() => number} rng */
function stateOf(plan, rng) {
  if (plan === 'trial') return { subscription: 'trialing', trial_ends_at: '2099-01-01T00:00:00Z' }
  return { subscription: rng() < PAST_DUE_SHARE ? 'past_due' : 'active' }
}

/** Draws who sends next, and how many events. @param {readonly FleetApp[]} fleet */
export function createFleetPicker(fleet) {
  const pickApp = createPicker(fleet.map(({ share }) => share))
  const pickers = new Map(fleet.map(({ sender }) => [sender, createPicker(sender.shares)]))
  return (/** @type {() => number} */ rng) => {
    const app = fleet[pickApp(rng())]
    const pickSize = /** @type {(random: number) => number} */ (pickers.get(app.sender))
    return { app, events: app.sender.sizes[pickSize(rng())] }
  }
}

/** A day's rise and fall, as rates of stages: from `low` up to `high` and back, so many times. @param {{ low: number, high: number, waves: number, stepsPerWave?: number }} options */
export function waveRates({ low, high, waves, stepsPerWave = 8 }) {
  const middle = (low + high) / 2
  const half = (high - low) / 2
  return Array.from({ length: waves * stepsPerWave }, (_, index) =>
    Math.max(1, Math.round(middle - half * Math.cos((2 * Math.PI * (index + 1)) / stepsPerWave))),
  )
}
