// @ts-check
// Runs steps of load one after the other, each a scenario of its own, and reads by step what k6 and the nodes counted.

import { sleep } from 'k6'
import exec from 'k6/execution'
import { Gauge } from 'k6/metrics'
import { percentileMs, sumOf } from './metrics-page.js'
import { readNode } from './node.js'
import { arrivals, durationOf, fewVus, GRACE_MS, SHOWN } from './objectives.js'
import { figure } from './verdict.js'

const MILLISECONDS = 1000

const nodeP99 = new Gauge('node_p99_ms')
const nodeLag = new Gauge('node_lag_ms')
const nodeCores = new Gauge('node_cores')
const nodeCpuSeconds = new Gauge('node_cpu_seconds')

/** @typedef {import('./settings.js').Settings} Settings */
/** @typedef {{ name: string, rate: number, startMs: number, durationMs: number, exec: string, events: number }} Plan */

/**
 * Lays steps out in time, with a rest between them in which the requests of the last come to their end.
 * @param {readonly { name: string, rate: number, events: number }[]} steps @param {{ startMs: number, durationMs: number, exec: string }} options @returns {Plan[]}
 */
export function layOut(steps, { startMs, durationMs, exec: name }) {
  return steps.map((step, index) => ({
    ...step,
    exec: name,
    durationMs,
    startMs: startMs + index * (durationMs + GRACE_MS),
  }))
}

/** @param {Settings} settings @param {readonly Plan[]} plans @returns {Record<string, import('k6/options').Scenario>} */
export function stepScenarios(settings, plans) {
  const steps = plans.map(({ name, rate, startMs, durationMs, exec: run }) => [
    name,
    arrivals(settings, { rate, startMs, durationMs, exec: run, tags: { step: name }, vus: fewVus(settings, rate) }),
  ])
  if (settings.adminUrls.length === 0) return Object.fromEntries(steps)
  const last = plans[plans.length - 1]
  const maxDuration = `${Math.round((last.startMs + last.durationMs) / MILLISECONDS + 30)}s`
  return {
    ...Object.fromEntries(steps),
    nodes: { executor: 'per-vu-iterations', vus: 1, iterations: 1, maxDuration, exec: 'watchNodes' },
  }
}

/** k6 keeps figures by step only where they are asked for. @param {Settings} settings @param {readonly Plan[]} plans @returns {import('./objectives.js').Thresholds} */
export function stepFigures({ adminUrls }, plans) {
  /** @type {import('./objectives.js').Thresholds} */
  const thresholds = {}
  for (const { name } of plans) {
    thresholds[durationOf(`step:${name}`)] = [SHOWN.trend]
    thresholds[`available{step:${name}}`] = [SHOWN.rate]
    thresholds[`events_accepted{step:${name}}`] = [SHOWN.counter]
    thresholds[`dropped_iterations{scenario:${name}}`] = [SHOWN.counter]
    thresholds[`bytes_sent{step:${name}}`] = [SHOWN.counter]
    if (adminUrls.length === 0) continue
    for (const metric of ['node_p99_ms', 'node_lag_ms', 'node_cores', 'node_cpu_seconds'])
      thresholds[`${metric}{step:${name}}`] = [SHOWN.gauge]
  }
  return thresholds
}

/** The one virtual user that reads the nodes before and after each step. @param {Settings} settings @param {readonly Plan[]} plans */
export function watchSteps({ adminUrls }, plans) {
  const begunMs = exec.scenario.startTime
  for (const { name, startMs, durationMs } of plans) {
    sleepUntil(begunMs + startMs)
    const [before, beforeMs] = [adminUrls.map(readNode), Date.now()]
    sleepUntil(begunMs + startMs + durationMs)
    const [after, afterMs] = [adminUrls.map(readNode), Date.now()]
    const tags = { step: name }
    // One node that is slow is enough to be slow, and one that is full to be full.
    let [p99Ms, lagMs, cores, cpuSeconds] = [Number.NaN, Number.NaN, Number.NaN, 0]
    for (const [index, page] of after.entries()) {
      const earlier = before[index]
      if (page === null || earlier === null) return
      const usedSeconds = sumOf(page, 'process_cpu_seconds_total') - sumOf(earlier, 'process_cpu_seconds_total')
      cpuSeconds += usedSeconds
      cores = larger(cores, usedSeconds / ((afterMs - beforeMs) / MILLISECONDS))
      // Since the page was last read, which was when the step began.
      lagMs = larger(lagMs, sumOf(page, 'nodejs_eventloop_lag_p99_seconds') * MILLISECONDS)
      p99Ms = larger(p99Ms, percentileMs(earlier, page, 'sluice_request_duration_seconds', 0.99))
    }
    if (!Number.isNaN(p99Ms)) nodeP99.add(p99Ms, tags)
    if (!Number.isNaN(lagMs)) nodeLag.add(lagMs, tags)
    nodeCores.add(cores, tags)
    nodeCpuSeconds.add(cpuSeconds, tags)
  }
}

/** @param {number} left @param {number} right NaN is nothing */
function larger(left, right) {
  return Number.isNaN(left) || right > left ? right : left
}

/** @param {number} untilMs */
function sleepUntil(untilMs) {
  sleep(Math.max(0, untilMs - Date.now()) / MILLISECONDS)
}

/** What was counted in a step. @param {import('./verdict.js').RunData} data @param {Plan} plan */
export function readStep(data, { name, rate, durationMs, events }) {
  const latency = (/** @type {string} */ which) => figure(data, durationOf(`step:${name}`), which)
  const seconds = durationMs / MILLISECONDS
  // A gauge that was never set reads 0.
  const node = (/** @type {string} */ metric) => figure(data, `${metric}{step:${name}}`, 'value') || Number.NaN
  const requests = latency('count') || 0
  const accepted = figure(data, `events_accepted{step:${name}}`, 'count') || 0
  return {
    name,
    rate,
    events,
    seconds,
    requests,
    requestsPerSecond: requests / seconds,
    eventsPerSecond: accepted / seconds,
    bytesPerSecond: (figure(data, `bytes_sent{step:${name}}`, 'count') || 0) / seconds,
    p50Ms: latency('med'),
    p99Ms: latency('p(99)'),
    failed: figure(data, `available{step:${name}}`, 'fails') || 0,
    dropped: figure(data, `dropped_iterations{scenario:${name}}`, 'count') || 0,
    nodeP99Ms: node('node_p99_ms'),
    nodeLagMs: node('node_lag_ms'),
    nodeCores: node('node_cores'),
    cpuMicrosecondsPerEvent: (node('node_cpu_seconds') * 1e6) / accepted,
    cpuMicrosecondsPerRequest: (node('node_cpu_seconds') * 1e6) / requests,
  }
}
