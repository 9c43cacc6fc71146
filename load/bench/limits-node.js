// @ts-check
// One node of the bench of the shared limits: takes events at a fixed rate, over many apps, and says how long each take
// waited. Arguments: Redis's URL, apps, takes a second, seconds.

import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { importBuilt } from '../shared/built.js'
import { percentilesOf } from './percentiles.js'

/** @type {typeof import('../../src/apps/app-record.ts')} */
const { appOf } = await importBuilt('apps/app-record.js')
/** @type {typeof import('../../src/redis/connection.ts')} */
const { openRedis, untilUp } = await importBuilt('redis/connection.js')
/** @type {typeof import('../../src/lib/timers.ts')} */
const { systemTimers } = await importBuilt('lib/timers.js')
/** @type {typeof import('../../src/limits/shared/shared-admission.ts')} */
const { SharedAdmission } = await importBuilt('limits/shared/shared-admission.js')

const [, , url, appsText, rateText, secondsText] = process.argv
const [apps, perSecond, seconds] = [appsText, rateText, secondsText].map(Number)
const WARM_UP_SECONDS = 2
const STEP_MS = 1

let outages = 0
const link = openRedis({ redis: url, onNotice: () => {} })
await untilUp(link, 5000)
link.onChange((isUp) => {
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
  onNotice: () => {},
  onFault: (error) => {
    throw error
  },
})
const settled = /** @type {const} */ ({ plan: '100k', subscription: 'active', events_per_minute: 500 })
const records = Array.from({ length: apps }, (_, at) => appOf({ app_key: `ak_${at}`, app_id: `app${at}`, ...settled }))

/** @type {number[]} */
let waitedMs = []
let refused = 0
let failed = 0

/** From the moment at which it was due. @param {number} dueMs */
async function take(dueMs) {
  const admitted = await admission.admit(records[Math.floor(Math.random() * apps)], 1, null, null)
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
const { p50: p50Ms, p99: p99Ms, max: maxMs } = percentilesOf(waitedMs)
process.stdout.write(
  `${JSON.stringify({
    takes: waitedMs.length,
    refused,
    failed,
    outages,
    calls: calls.answered + calls.slow + calls.failed - callsBefore.answered - callsBefore.slow - callsBefore.failed,
    p50Ms,
    p99Ms,
    maxMs,
  })}\n`,
)
process.exit(0)
