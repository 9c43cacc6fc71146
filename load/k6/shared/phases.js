// @ts-check
// Runs phases of load one after the other, each a scenario of its own, and reads by phase what k6 and the nodes counted.

import { sleep } from 'k6'
import exec from 'k6/execution'
import { Gauge } from 'k6/metrics'
import { percentileMs, sumOf } from './metrics-page.js'
import { readNode } from './node.js'
import { alone, arrivals, durationOf, fewVus, GRACE_MS, SHOWN } from './objectives.js'
import { figure } from './verdict.js'

const MILLISECONDS = 1000

const nodeP99 = new Gauge('node_p99_ms')
const nodeLag = new Gauge('node_lag_ms')
const nodeCores = new Gauge('node_cores')
const nodeCpuSeconds = new Gauge('node_cpu_seconds')
const OF_NODES = ['node_p99_ms', 'node_lag_ms', 'node_cores', 'node_cpu_seconds']

/** @typedef {import('./settings.js').Settings} Settings */
/** `isFollowed`: by the next at once. @typedef {{ name: string, rate: number, durationMs: number, events: number, isFollowed?: boolean }} Phase */
/** @typedef {Phase & { startMs: number }} Plan */

/** One after the other, with a rest between them in which the requests of the last come to their end. @param {readonly Phase[]} phases @returns {Plan[]} */
export function layOut(phases) {
  let nextMs = 0
  return phases.map((phase) => {
    const startMs = nextMs
    nextMs += phase.durationMs + (phase.isFollowed === true ? 0 : GRACE_MS)
    return Object.assign({ startMs }, phase)
  })
}

/**
 * A warm-up, which no figure is kept of, then step after step. The nodes are read before and after each.
 * @param {Settings} settings @param {readonly Phase[]} phases the warm-up first @param {string} run the function that sends
 */
export function inSteps(settings, phases, run) {
  const [{ rate, durationMs }, ...plans] = layOut(phases)
  return {
    names: plans.map(({ name }) => name),
    scenarios: {
      warm_up: arrivals(settings, { rate, durationMs, tags: { phase: 'warm_up' }, exec: run }),
      ...phaseScenarios(settings, plans, run),
      ...nodeScenario(settings, plans),
    },
    thresholds: phaseFigures(plans, settings.adminUrls.length === 0 ? [] : OF_NODES),
    watchNodes: () => watchPhases(settings, plans),
    read: (/** @type {import('./verdict.js').RunData} */ data) => plans.map((plan) => readPhase(data, plan)),
  }
}

/** A scenario for each. @param {Settings} settings @param {readonly Plan[]} plans @param {string} run the function that sends */
export function phaseScenarios(settings, plans, run) {
  const scenarios = plans.map(({ name, rate, startMs, durationMs }) => [
    name,
    arrivals(settings, { rate, startMs, durationMs, exec: run, tags: { phase: name }, vus: fewVus(settings, rate) }),
  ])
  return /** @type {Record<string, import('k6/options').Scenario>} */ (Object.fromEntries(scenarios))
}

/** The one that reads the nodes meanwhile. @param {Settings} settings @param {readonly Plan[]} plans @returns {Record<string, import('k6/options').Scenario>} */
function nodeScenario({ adminUrls }, plans) {
  if (adminUrls.length === 0) return {}
  const last = plans[plans.length - 1]
  return { nodes: alone('watchNodes', (last.startMs + last.durationMs) / MILLISECONDS + 30) }
}

/** k6 keeps figures by phase only where they are asked for. @param {readonly Plan[]} plans @param {readonly string[]} [ofNodes] what `watchPhases` reads @returns {import('./objectives.js').Thresholds} */
export function phaseFigures(plans, ofNodes = []) {
  /** @type {import('./objectives.js').Thresholds} */
  const thresholds = {}
  for (const { name } of plans) {
    thresholds[durationOf(`phase:${name}`)] = [SHOWN.trend]
    thresholds[`available{phase:${name}}`] = [SHOWN.rate]
    thresholds[`events_accepted{phase:${name}}`] = [SHOWN.counter]
    thresholds[`dropped_iterations{scenario:${name}}`] = [SHOWN.counter]
    thresholds[`bytes_sent{phase:${name}}`] = [SHOWN.counter]
    for (const metric of ofNodes) thresholds[`${metric}{phase:${name}}`] = [SHOWN.gauge]
  }
  return thresholds
}

/** The one virtual user that reads the nodes before and after each phase. @param {Settings} settings @param {readonly Plan[]} plans */
function watchPhases({ adminUrls }, plans) {
  const begunMs = exec.scenario.startTime
  for (const { name, startMs, durationMs } of plans) {
    sleepUntil(begunMs + startMs)
    const [before, beforeMs] = [adminUrls.map(readNode), Date.now()]
    sleepUntil(begunMs + startMs + durationMs)
    const [after, afterMs] = [adminUrls.map(readNode), Date.now()]
    const tags = { phase: name }
    // One node that is slow is enough to be slow, and one that is full to be full.
    let [p99Ms, lagMs, cores, cpuSeconds] = [Number.NaN, Number.NaN, Number.NaN, 0]
    for (const [index, page] of after.entries()) {
      const earlier = before[index]
      if (page === null || earlier === null) return
      const usedSeconds = sumOf(page, 'process_cpu_seconds_total') - sumOf(earlier, 'process_cpu_seconds_total')
      cpuSeconds += usedSeconds
      cores = larger(cores, usedSeconds / ((afterMs - beforeMs) / MILLISECONDS))
      // Since the page was last read, which was when the phase began.
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

/** What was counted in a phase. @param {import('./verdict.js').RunData} data @param {Plan} plan */
export function readPhase(data, { name, rate, durationMs, events }) {
  const latency = (/** @type {string} */ which) => figure(data, durationOf(`phase:${name}`), which)
  const seconds = durationMs / MILLISECONDS
  // A gauge that was never set reads 0.
  const node = (/** @type {string} */ metric) => figure(data, `${metric}{phase:${name}}`, 'value') || Number.NaN
  const requests = latency('count') || 0
  const accepted = figure(data, `events_accepted{phase:${name}}`, 'count') || 0
  return {
    name,
    rate,
    events,
    seconds,
    requests,
    requestsPerSecond: requests / seconds,
    eventsPerSecond: accepted / seconds,
    bytesPerSecond: (figure(data, `bytes_sent{phase:${name}}`, 'count') || 0) / seconds,
    p50Ms: latency('med'),
    p99Ms: latency('p(99)'),
    maxMs: latency('max'),
    failed: figure(data, `available{phase:${name}}`, 'fails') || 0,
    dropped: figure(data, `dropped_iterations{scenario:${name}}`, 'count') || 0,
    nodeP99Ms: node('node_p99_ms'),
    nodeLagMs: node('node_lag_ms'),
    nodeCores: node('node_cores'),
    cpuMicrosecondsPerEvent: (node('node_cpu_seconds') * 1e6) / accepted,
    cpuMicrosecondsPerRequest: (node('node_cpu_seconds') * 1e6) / requests,
  }
}
