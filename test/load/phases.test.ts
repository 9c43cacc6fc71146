// The load scripts that go through steps or phases, run for real in a short form.

import { describe, expect, it } from 'vitest'
import { needK6, reportOf, runLoad, sentAs } from '../support/k6.ts'
import { startStandIn, type StandInOptions } from '../support/stand-in.ts'

const MIB = 1_048_576
/** A run takes some seconds; a machine that does much else makes it more. */
const TIMEOUT_MS = 180_000
/** What a few requests a second need: k6 takes a while to make many. */
const FEW = { VUS: '30' }

async function againstStandIn(
  name: string,
  options: StandInOptions,
  environment: Record<string, string>,
  isAdmin = false,
) {
  const standIn = await startStandIn(options)
  try {
    const admin: Record<string, string> = isAdmin ? { ADMIN_URL: standIn.url } : {}
    const run = await runLoad(name, {
      BASE_URL: standIn.url,
      APP_KEY: 'ak_load_test',
      ...admin,
      ...FEW,
      ...environment,
    })
    return { ...run, report: reportOf(run) }
  } finally {
    await standIn.stop()
  }
}

describe.concurrent('load scripts with phases', { timeout: TIMEOUT_MS }, () => {
  it('ramp goes up its steps, and says that nothing broke where nothing did', async (context) => {
    needK6(context)
    const run = await runLoad('ramp', { ...FEW, RATE: '10', STEPS: '2', GROWTH: '2', STEP_DURATION: '1s', EVENTS: '3' })
    const report = reportOf(run)
    expect({ code: run.code, verdict: report.verdict, reasons: report.reasons }).toMatchObject({
      code: 0,
      verdict: 'HELD',
    })
    expect(report.nodeAgrees).toBe(true)
    const { steps, breaking } = report.found
    expect(steps.map(({ rate }: { rate: number }) => rate)).toEqual([10, 20])
    for (const { rate, requests, eventsPerSecond, nodeCores } of steps) {
      expect(requests).toBeGreaterThanOrEqual(rate)
      expect(requests).toBeLessThanOrEqual(rate + 1)
      expect(eventsPerSecond).toBe(requests * 3)
      expect(nodeCores).toBeGreaterThan(0)
    }
    expect(breaking).toMatchObject({ broken: null, best: { rate: 20 } })
  })

  it('ramp names the last step that held, and who broke in the next', async (context) => {
    needK6(context)
    const settings = { RATE: '10', STEPS: '3', GROWTH: '2', STEP_DURATION: '1s', EVENTS: '1' }
    // The warm-up and the first step hold about 20 requests, the second 20 more.
    const react = ({ request }: { request: number }) => ({ overloaded: request > 25 })
    const { report, code } = await againstStandIn('ramp', { react }, settings)
    expect({ code, verdict: report.verdict, reasons: report.reasons }).toMatchObject({ code: 0, verdict: 'HELD' })
    expect(report.found.breaking).toMatchObject({ best: { rate: 10 }, broken: { rate: 20 }, cause: 'service' })
    expect(report.notes[0]).toMatch(/^10 requests\/s held; the service broke at 20/)
  })

  it('ramp takes iterations that k6 drops for a step that did not hold, not for a void run', async (context) => {
    needK6(context)
    const settings = { RATE: '10', STEPS: '2', GROWTH: '2', STEP_DURATION: '1s', EVENTS: '1', VUS: '6' }
    // Six at a time, each for 900 ms: six or seven a second.
    const react = ({ request }: { request: number }) => ({ delayMs: request > 25 ? 900 : 0 })
    const { report, code } = await againstStandIn('ramp', { react }, settings)
    expect({ code, verdict: report.verdict, reasons: report.reasons }).toMatchObject({ code: 0, verdict: 'HELD' })
    expect(report.found.breaking).toMatchObject({ best: { rate: 10 }, broken: { rate: 20 }, cause: 'unknown' })
    expect(report.found.breaking.broken.dropped).toBe(report.dropped)
  })

  it('sweep sends each size at its own rate, and knows what CPU it cost', async (context) => {
    needK6(context)
    const run = await runLoad('sweep', { ...FEW, RATE: '20', EVENT_RATE: '100', SIZES: '1,10', STEP_DURATION: '1s' })
    const report = reportOf(run)
    expect({ code: run.code, verdict: report.verdict, reasons: report.reasons }).toMatchObject({
      code: 0,
      verdict: 'HELD',
    })
    expect(report.nodeAgrees).toBe(true)
    const { steps } = report.found
    expect(steps).toMatchObject([
      { events: 1, rate: 20 },
      { events: 10, rate: 10 },
    ])
    for (const { events, requests, eventsPerSecond, cpuMicrosecondsPerEvent } of steps) {
      expect(eventsPerSecond).toBe(requests * events)
      expect(cpuMicrosecondsPerEvent).toBeGreaterThan(0)
    }
  })

  it('spike is void where it met no overload', async (context) => {
    needK6(context)
    const times = { SPIKE_DURATION: '1s', BASE_DURATION: '1s', ACCEPTED_SHARE: 'off' }
    const settings = { ...times, RATE: '10', SPIKE_RATE: '20', BODY: 'uniform', EVENTS: '1', BEST_VUS: '1' }
    const run = await runLoad('spike', { ...FEW, ...settings })
    expect(run.code).not.toBe(0)
    expect(reportOf(run)).toMatchObject({ verdict: 'VOID', nodeAgrees: true, found: { overloaded: 0 } })
    expect(run.output).toContain('the spike met no 503')
  })

  it('spike tells 503s that end with the spike from such that go on', async (context) => {
    needK6(context)
    const times = { SPIKE_DURATION: '1s', BASE_DURATION: '1s', ACCEPTED_SHARE: 'off' }
    const settings = { ...times, RATE: '5', SPIKE_RATE: '60', VUS: '60', BODY: 'uniform', EVENTS: '1', BEST_VUS: '1' }
    let hasRefused = false
    const overload = (forGood: boolean) => {
      hasRefused = false
      return ({ underWay }: { underWay: number }) => {
        const isFull = underWay > 4
        hasRefused ||= isFull
        return { overloaded: isFull || (forGood && hasRefused), delayMs: isFull ? 0 : 150 }
      }
    }
    const [passing, lasting] = await Promise.all([
      againstStandIn('spike', { react: overload(false) }, settings),
      againstStandIn('spike', { react: overload(true) }, settings),
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
    expect(refusedIn(['warm_up', 'best', 'base', 'after'])).toEqual([0, 0, 0, 0])
    // Of the last that came with the spike, some may be answered when it is over.
    const [inSpike, settling] = refusedIn(['spike', 'settling'])
    expect(inSpike).toBeGreaterThan(0)
    expect(inSpike + settling).toBe(sentAs(passing.report, 'service_overloaded'))
    expect({ code: lasting.code, verdict: lasting.report.verdict }).toEqual({ code: 99, verdict: 'FAILED' })
    expect(lasting.report.reasons).toContain('outcomes{code:service_overloaded,phase:after}: count==0')
  })

  it('soak takes samples of a node’s memory, and holds a flat one to be flat', async (context) => {
    needK6(context)
    const settings = { RATE: '10', DURATION: '4s', SAMPLE_EVERY: '500ms', GROWTH_MB: '1000', EVENTS: '1' }
    const run = await runLoad('soak', { ...FEW, ...settings })
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
    const begunMs = Date.now()
    const metrics = () => `process_resident_memory_bytes ${100 * MIB + (Date.now() - begunMs) * 20_000}\n`
    const settings = { RATE: '10', DURATION: '3s', SAMPLE_EVERY: '300ms', GROWTH_MB: '1', EVENTS: '1' }
    const { report, code } = await againstStandIn('soak', { metrics }, settings, true)
    expect({ code, verdict: report.verdict }).toEqual({ code: 99, verdict: 'FAILED' })
    expect(report.reasons).toEqual(['memory_flat: rate==1'])
  })
})
