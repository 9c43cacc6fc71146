// @ts-check
// Soak: does memory stay flat, and do the objectives hold, for hours? The nodes are asked for their memory all along; a line
// through the last two thirds of the samples tells growth from noise.

import { sleep } from 'k6'
import exec from 'k6/execution'
import { Counter, Gauge, Rate } from 'k6/metrics'
import { packBodies } from './shared/bodies.js'
import { hasRestarted, isTooShort, judgeGrowth } from './shared/growth.js'
import { sumOf } from './shared/metrics-page.js'
import { aroundRun, readNode } from './shared/node.js'
import { alone, arrivals, fewVus, options as makeOptions, objectives, SHOWN, soundness } from './shared/objectives.js'
import { postNext } from './shared/send.js'
import { summarise } from './shared/summary.js'
import { mebibytes, tableOf } from './shared/tables.js'
import { readTarget } from './shared/target.js'
import { figure } from './shared/verdict.js'

/** k6 keeps each sample as a metric of its own. */
const MAX_SAMPLES = 120
const MIN_SAMPLE_EVERY_MS = 100
const MIB = 1_048_576
/** What is kept of each sample, by the name it has on the nodes' pages. */
const PARTS = /** @type {const} */ ({
  resident: 'process_resident_memory_bytes',
  heap: 'nodejs_heap_size_used_bytes',
  external: 'nodejs_external_memory_bytes',
  ring: 'sluice_ring_used_bytes',
  at: 'seconds into the run',
})
const STARTED_AT = 'process_start_time_seconds'
const PART_NAMES = /** @type {(keyof typeof PARTS)[]} */ (Object.keys(PARTS))

const settings = readTarget('soak')
const sampleEveryMs = Math.max(
  settings.readDurationMs('SAMPLE_EVERY', MIN_SAMPLE_EVERY_MS),
  settings.durationMs / MAX_SAMPLES,
)
const limits = {
  durationMs: settings.durationMs,
  percentPerHour: settings.number('GROWTH_PERCENT', 0, 10_000),
  bytes: settings.number('GROWTH_MB', 0, 1_000_000) * MIB,
}
const isWatched = settings.adminUrls.length > 0
const samples = Math.floor(settings.durationMs / sampleEveryMs)
settings.check()
const bodies = packBodies(settings)

const memory = new Gauge('memory')
const memoryFlat = new Rate('memory_flat')
const restarted = new Counter('nodes_restarted')
const growthPercent = new Gauge('memory_growth_percent_per_hour')
const growthBytes = new Gauge('memory_growth_bytes')

const tagsOf = (/** @type {keyof typeof PARTS} */ part, /** @type {number} */ sample) => ({
  part,
  sample: String(sample),
})
const nameOf = (/** @type {keyof typeof PARTS} */ part, /** @type {number} */ sample) =>
  `memory{part:${part},sample:${sample}}`

/** @returns {import('./shared/objectives.js').Thresholds} */
function memoryThresholds() {
  if (!isWatched) return {}
  const shown = PART_NAMES.flatMap((part) =>
    Array.from({ length: samples }, (_, sample) => [nameOf(part, sample), [SHOWN.gauge]]),
  )
  return {
    ...Object.fromEntries(shown),
    memory_flat: ['rate==1'],
    memory_growth_percent_per_hour: [SHOWN.gauge],
    memory_growth_bytes: [SHOWN.gauge],
  }
}

export const options = makeOptions(settings, {
  scenarios: {
    soak: arrivals(settings, { exec: 'soak', vus: fewVus(settings) }),
    ...(isWatched && { memory: alone('watchMemory', settings.durationMs / 1000 + 60) }),
  },
  thresholds: { ...soundness(settings), ...objectives(settings), ...memoryThresholds() },
})

export const { setup, teardown } = aroundRun(settings)
export const soak = () => postNext(settings, bodies)

export function watchMemory() {
  const begunMs = exec.scenario.startTime
  const resident = settings.adminUrls.map(() => /** @type {import('./shared/growth.js').Sample[]} */ ([]))
  for (let sample = 0; sample < samples; sample++) {
    sleep(Math.max(0, begunMs + (sample + 1) * sampleEveryMs - Date.now()) / 1000)
    const atMs = Date.now() - begunMs
    const pages = settings.adminUrls.map(readNode)
    for (const [node, page] of pages.entries()) {
      if (page === null) continue
      resident[node].push({ atMs, value: sumOf(page, PARTS.resident), startedAt: sumOf(page, STARTED_AT) })
    }
    const all = pages.flatMap((page) => page ?? [])
    // A node that did not answer would look like memory given back.
    if (pages.includes(null)) continue
    for (const part of PART_NAMES)
      memory.add(part === 'at' ? atMs / 1000 : sumOf(all, PARTS[part]), tagsOf(part, sample))
  }
  for (const list of resident) if (hasRestarted(list)) restarted.add(1)
  const growths = resident.map((list) => judgeGrowth(list, limits))
  for (const { isFlat } of growths) memoryFlat.add(isFlat)
  const [worst] = growths.toSorted((left, right) => right.bytes - left.bytes)
  growthPercent.add(worst.percentPerHour)
  growthBytes.add(worst.bytes)
}

export function handleSummary(/** @type {import('./shared/verdict.js').RunData} */ data) {
  const series = Array.from({ length: isWatched ? samples : 0 }, (_, sample) =>
    Object.fromEntries(PART_NAMES.map((part) => [part, figure(data, nameOf(part, sample), 'value')])),
  ).filter(({ at }) => at > 0)
  const growth = {
    percentPerHour: figure(data, 'memory_growth_percent_per_hour', 'value'),
    bytes: figure(data, 'memory_growth_bytes', 'value'),
  }
  const [first, last] = [series[0], series[series.length - 1]]
  const parts = series.length === 0 ? [] : /** @type {const} */ (['resident', 'heap', 'external', 'ring'])
  const table = tableOf('memory of all nodes', parts, [
    ['part', (part) => part],
    ['first', (part) => mebibytes(first[part])],
    ['last', (part) => mebibytes(last[part])],
    ['most', (part) => mebibytes(Math.max(...series.map((sample) => sample[part])))],
  ])
  const voids = []
  if (isWatched && series.length < 3) voids.push('memory was seen less than three times: a longer run, or SAMPLE_EVERY')
  if (figure(data, 'nodes_restarted', 'count') > 0) voids.push('a node was started again: its memory began anew')
  const allowance = isTooShort(settings.durationMs) ? `, or at most ${mebibytes(limits.bytes)} in all` : ''
  return summarise(settings, data, {
    voids,
    notes: isWatched
      ? [
          `resident memory of the node that grew most: ${mebibytes(growth.bytes)} over the last two thirds of the run, ${growth.percentPerHour.toFixed(1)}% an hour`,
          `flat is: at most ${limits.percentPerHour}% an hour${allowance}`,
        ]
      : ['memory was not looked at: ADMIN_URL was not given'],
    tables: [table],
    found: { growth, samples: series },
  })
}
