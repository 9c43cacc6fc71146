// @ts-check
// One node of the bench of the shared limits: takes events at a fixed rate, over many apps, and says how long each take
// waited. Arguments: Redis's URL, apps, takes a second, seconds.

import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

// The built service, which need not be there when this file is checked.
const inBuilt = (/** @type {string} */ name) => new URL(`../../dist/${name}`, import.meta.url).href
const { openRedis, untilUp } = await import(inBuilt('redis/connection.js'))
const { systemTimers } = await import(inBuilt('lib/timers.js'))
const { SharedAdmission } = await import(inBuilt('limits/shared/shared-admission.js'))

const [, , url, appsText, rateText, secondsText] = process.argv
const [apps, perSecond, seconds] = [appsText, rateText, secondsText].map(Number)
const WARM_UP_SECONDS = 2
const STEP_MS = 1

let outages = 0
const link = openRedis({ redis: url, onNotice: () => {} })
await untilUp(link, 5000)
link.onChange((/** @type {boolean} */ isUp) => {
  if (!isUp) outages++
})
const calls = { answered: 0, slow: 0, failed: 0, without: 0 }
const admission = new SharedAdmission({
  link,
  nodeId: randomBytes(6).toString('hex'),
  partitions: 16,
  maxKeys: 1000,
  seed: 1,
  timers: systemTimers,
  calls,
  onFault: (/** @type {unknown} */ error) => {
    throw error
  },
})
const records = Array.from({ length: apps }, (_, at) => ({
  appKey: `ak_${at}`,
  appId: `app${at}`,
  name: null,
  plan: /** @type {const} */ ('100k'),
  subscription: /** @type {const} */ ('active'),
  trialEndsAtMs: null,
  billingAnchorMs: null,
  eventsPerMinute: 500,
  eventsPerDay: null,
  eventsPerMonth: 110_000,
}))

/** @type {number[]} */
let waitedMs = []
let refused = 0
let failed = 0

/** From the moment at which it was due. @param {number} dueMs */
async function take(dueMs) {
  const admitted = await admission.admit(records[Math.floor(Math.random() * apps)], 1, null)
  waitedMs.push(performance.now() - dueMs)
  if (admitted.kind === 'over limit') refused++
  if (admitted.kind === 'overloaded') failed++
}

/** @param {number} forSeconds */
async function load(forSeconds) {
  const startMs = performance.now()
  let sent = 0
  while (performance.now() - startMs < forSeconds * 1000) {
    const due = Math.floor(((performance.now() - startMs) / 1000) * perSecond)
    for (; sent < due; sent++) void take(startMs + (sent / perSecond) * 1000)
    await sleep(STEP_MS)
  }
}

await load(WARM_UP_SECONDS)
process.stdout.write('warm\n')
waitedMs = []
outages = 0
const callsBefore = { ...calls }
await load(seconds)
const sorted = waitedMs.toSorted((one, other) => one - other)
const at = (/** @type {number} */ share) => sorted[Math.floor((sorted.length - 1) * share)]
process.stdout.write(
  `${JSON.stringify({
    takes: sorted.length,
    refused,
    failed,
    outages,
    calls: calls.answered + calls.slow + calls.failed - callsBefore.answered - callsBefore.slow - callsBefore.failed,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    maxMs: at(1),
  })}\n`,
)
process.exit(0)
