// The load scripts that go through steps or phases, run for real in a short form.

import { describe, expect, it } from 'vitest'
import { type Environment, type LoadRun, needK6, reportOf, runLoad, sentAs } from '../support/k6.ts'
import { type StandInOptions, startStandIn } from '../support/stand-in.ts'

const MIB = 1_048_576
/** A run takes some seconds; a machine that does much else makes it more. */
const TIMEOUT_MS = 180_000
/** More than a second of any rate here, so that a k6 that is late drops nothing; it takes a while to make many. */
const FEW = { VUS: '30' }
/** More than two k6 and two nodes at once would wait for each other on a small machine. */
const RUNS_AT_ONCE = 2

let going = 0
const waiting: (() => void)[] = []

/** Runs a script when it is its turn. */
async function runInTurn(name: string, settings: Environment): Promise<LoadRun> {
  if (going >= RUNS_AT_ONCE) await new Promise<void>((go) => waiting.push(go))
  else going++
  try {
    return await runLoad(name, { ...FEW, ...settings })
  } finally {
    const next = waiting.shift()
    if (next === undefined) going--
    else next()
  }
}

async function againstStandIn(
  name: string,
  options: StandInOptions,
  environment: Record<string, string>,
  isAdmin = false,
) {
  const standIn = await startStandIn(options)
  try {
    const admin: Record<string, string> = isAdmin ? { ADMIN_URL: standIn.url } : {}
    const run = await runInTurn(name, { BASE_URL: standIn.url, APP_KEY: 'ak_load_test', ...admin, ...environment })
    return { ...run, report: reportOf(run) }
  } finally {
    await standIn.stop()
  }
}

describe.concurrent('load scripts with phases', { timeout: TIMEOUT_MS }, () => {
  it('ramp goes up its steps, and says that nothing broke where nothing did', async (context) => {
    needK6(context)
    const run = await runInTurn('ramp', { RATE: '10', STEPS: '2', GROWTH: '2', STEP_DURATION: '1s', EVENTS: '3' })
    const report = reportOf(run)
    expect({ code: run.code, verdict: report.verdict, reasons: report.reasons }).toMatchObject({
      code: 0,
      verdict: 'HELD',
    })
    expect(report.nodeAgrees).toBe(true)
    const { steps, breaking } = report.found
    expect(steps.map(({ rate }: { rate: number }) => rate)).toEqual([10, 20])
    for (const { rate, requests, eventsPerSecond, nodeCores } of steps) {
      // As the time is up k6 may begin one more.
      expect(requests).toBeGreaterThan(0)
      expect(requests).toBeLessThanOrEqual(rate + 1)
      expect(eventsPerSecond).toBe(requests * 3)
      expect(nodeCores).toBeGreaterThan(0)
    }
    expect(breaking).toMatchObject({ broken: null, best: { rate: 20 } })
  })

  it('ramp names the last step that held, and who broke in the next', async (context) => {
    needK6(context)
    const settings = { RATE: '10', STEPS: '2', GROWTH: '4', STEP_DURATION: '1s', EVENTS: '1' }
    // The warm-up and the first step hold at most 22 requests, the second 40 more.
    const react = ({ request }: { request: number }) => ({ overloaded: request > 25 })
    const { report, code } = await againstStandIn('ramp', { react }, settings)
    expect({ code, verdict: report.verdict, reasons: report.reasons }).toMatchObject({ code: 0, verdict: 'HELD' })
    expect(report.found.breaking).toMatchObject({ best: { rate: 10 }, broken: { rate: 40 }, cause: 'service' })
    expect(report.notes[0]).toMatch(/^10 requests\/s held; the service broke at 40/)
  })

  it('ramp takes iterations that k6 drops for a step that did not hold, not for a void run', async (context) => {
    needK6(context)
    const settings = { RATE: '10', STEPS: '2', GROWTH: '4', STEP_DURATION: '1s', EVENTS: '1', VUS: '12' }
    // Twelve are enough for all of the first step at once; of the second, each of them is held longer than it goes on.
    const react = ({ request }: { request: number }) => ({ delayMs: request > 25 ? 1200 : 0 })
    const { report, code } = await againstStandIn('ramp', { react }, settings)
    expect({ code, verdict: report.verdict, reasons: report.reasons }).toMatchObject({ code: 0, verdict: 'HELD' })
    expect(report.found.breaking).toMatchObject({ best: { rate: 10 }, broken: { rate: 40 }, cause: 'unknown' })
    expect(report.found.breaking.broken.dropped).toBe(report.dropped)
  })

  it('sweep sends each size at its own rate, and knows what CPU it cost', async (context) => {
    needK6(context)
    const run = await runInTurn('sweep', { RATE: '20', EVENT_RATE: '100', SIZES: '2,20', STEP_DURATION: '1s' })
    const report = reportOf(run)
    expect({ code: run.code, verdict: report.verdict, reasons: report.reasons }).toMatchObject({
      code: 0,
      verdict: 'HELD',
    })
    expect(report.nodeAgrees).toBe(true)
    const { steps } = report.found
    expect(steps).toMatchObject([
      { events: 2, rate: 20 },
      { events: 20, rate: 5 },
    ])
    for (const { events, requests, eventsPerSecond, cpuMicrosecondsPerEvent } of steps) {
      expect(eventsPerSecond).toBe(requests * events)
      expect(cpuMicrosecondsPerEvent).toBeGreaterThan(0)
    }
  })

  it('spike is void where it met no overload', async (context) => {
    needK6(context)
    const times = { SPIKE_DURATION: '1s', BASE_DURATION: '1s', ACCEPTED_SHARE: 'off' }
    const settings = { ...times, RATE: '5', SPIKE_RATE: '20', BODY: 'uniform', EVENTS: '1', BEST_VUS: '1' }
    const run = await runInTurn('spike', settings)
    expect(run.code).not.toBe(0)
    expect(reportOf(run)).toMatchObject({ verdict: 'VOID', nodeAgrees: true, found: { overloaded: 0 } })
    expect(run.output).toContain('the spike met no 503')
  })

  it('spike tells 503s that end with the spike from such that go on', async (context) => {
    needK6(context)
    const times = { SPIKE_DURATION: '1s', BASE_DURATION: '1s', ACCEPTED_SHARE: 'off' }
    const settings = { ...times, RATE: '5', SPIKE_RATE: '60', VUS: '70', BODY: 'uniform', EVENTS: '1', BEST_VUS: '1' }
    // One at a time for 150 ms, and then five in a second: there are fewer than 24 before the spike, which has 60.
    const refuseFrom24To = (last: number) => ({
      react: ({ request }: { request: number }) => ({ overloaded: request >= 24 && request <= last, delayMs: 150 }),
    })
    const [passing, lasting] = await Promise.all([
      againstStandIn('spike', refuseFrom24To(43), settings),
      againstStandIn('spike', refuseFrom24To(Number.POSITIVE_INFINITY), settings),
    ])
    expect({ code: passing.code, verdict: passing.report.verdict, reasons: passing.report.reasons }).toMatchObject({
      code: 0,
      verdict: 'HELD',
    })
    const { phases } = passing.report.found
    const refusedIn = (names: string[]): number[] =>
      phases.flatMap(({ name, overloaded }: { name: string; overloaded: number }) =>
        names.includes(name) ? [overloaded] : [],
      )
    expect(refusedIn(['warm_up', 'best', 'base', 'settling', 'after'])).toEqual([0, 0, 0, 0, 0])
    expect(refusedIn(['spike'])).toEqual([20])
    expect(sentAs(passing.report, 'service_overloaded')).toBe(20)
    expect({ code: lasting.code, verdict: lasting.report.verdict }).toEqual({ code: 99, verdict: 'FAILED' })
    expect(lasting.report.reasons).toContain('outcomes{code:service_overloaded,phase:after}: count==0')
  })

  it('soak takes samples of a node’s memory, and holds a flat one to be flat', async (context) => {
    needK6(context)
    const settings = { RATE: '10', DURATION: '2s', SAMPLE_EVERY: '300ms', GROWTH_MB: '1000', EVENTS: '1' }
    const run = await runInTurn('soak', settings)
    const report = reportOf(run)
    expect({ code: run.code, verdict: report.verdict, reasons: report.reasons }).toMatchObject({
      code: 0,
      verdict: 'HELD',
    })
    expect(report.nodeAgrees).toBe(true)
    expect(report.found.samples.length).toBeGreaterThanOrEqual(3)
    for (const { resident, heap } of report.found.samples) {
      expect(heap).toBeGreaterThan(MIB)
      expect(resident).toBeGreaterThan(heap)
    }
    expect(run.html).toContain('<polyline')
  })

  it('soak finds a node out whose memory grows', async (context) => {
    needK6(context)
    let reads = 0
    const metrics = () => `process_resident_memory_bytes ${(100 + 5 * reads++) * MIB}\n`
    const settings = { RATE: '10', DURATION: '2s', SAMPLE_EVERY: '200ms', GROWTH_MB: '1', EVENTS: '1' }
    const { report, code } = await againstStandIn('soak', { metrics }, settings, true)
    expect({ code, verdict: report.verdict }).toEqual({ code: 99, verdict: 'FAILED' })
    expect(report.reasons).toEqual(['memory_flat: rate==1'])
  })

  it('soak says nothing of a node that was started again on the way', async (context) => {
    needK6(context)
    let reads = 0
    const metrics = () => {
      const isNew = ++reads > 5
      return `process_resident_memory_bytes ${100 * MIB}\nprocess_start_time_seconds ${isNew ? 2000 : 1000}\n`
    }
    const settings = { RATE: '10', DURATION: '2s', SAMPLE_EVERY: '200ms', EVENTS: '1' }
    const { report } = await againstStandIn('soak', { metrics }, settings, true)
    expect({ verdict: report.verdict, reasons: report.reasons }).toEqual({
      verdict: 'VOID',
      reasons: ['a node was started again: its memory began anew'],
    })
  })
})
