// Every load script but `limits`, run for real in a short form against a node that the runner starts; one against a service
// that misbehaves; and the runner itself. What the scripts make of bad figures is in test/unit/load/script-verdicts.test.ts.

import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { type LoadRun, needK6, reportOf, runLoad, startLoad } from '../support/k6.ts'
import { eventually } from '../support/service.ts'
import { startStandIn } from '../support/stand-in.ts'

const KEY = 'ak_load_test'
/** A run takes some seconds; a machine that does much else makes it more. */
const TIMEOUT_MS = 180_000
const START_TIMEOUT_MS = 60_000
/** More than a second of any rate here, so that a k6 that is late drops nothing; it takes a while to make many. */
const FEW = { VUS: '30', RATE: '10', EVENTS: '3' }
const STEPS = { STEPS: '2', GROWTH: '2', STEP_DURATION: '1s' }
const SPIKE = { SPIKE_DURATION: '1s', BASE_DURATION: '1s', ACCEPTED_SHARE: 'off', BODY: 'uniform', BEST_VUS: '1' }

function expectHeld(run: LoadRun, isLocal = true): void {
  const { verdict, reasons, nodeAgrees } = reportOf(run)
  expect({ code: run.code, verdict, reasons }).toEqual({ code: 0, verdict: 'HELD', reasons: [] })
  expect(nodeAgrees).toBe(isLocal ? true : null)
}

describe('a load script', { timeout: TIMEOUT_MS }, () => {
  it('smoke sees every kind of answer', async (context) => {
    needK6(context)
    const run = await runLoad('smoke')
    expectHeld(run)
    const codes = ['accepted', 'replayed', 'validation_failed', 'invalid_json', 'invalid_app_key', 'not_found']
      .concat(['subscription_inactive', 'trial_expired', 'method_not_allowed', 'payload_too_large'])
      .concat(['unsupported_media_type', 'rate_limit_exceeded', 'daily_limit_exceeded', 'monthly_limit_exceeded'])
    expect(new Set(reportOf(run).outcomes.map(({ code }) => code))).toEqual(new Set(codes))
    expect(run.output, 'no key is written down').not.toContain('ak_load_ample')
  })

  it('steady sends what it says it sends', async (context) => {
    needK6(context)
    const run = await runLoad('steady', { ...FEW, RATE: '20', DURATION: '2s' })
    expectHeld(run)
    const { events, outcomes } = reportOf(run)
    // One second of warm-up, two of the load; k6 may begin one more as the time of each is up, and fewer where it is late.
    const [{ code, sent }] = outcomes
    expect({ code, events }).toEqual({ code: 'accepted', events: sent * 3 })
    expect(sent).toBeGreaterThan(30)
    expect(sent).toBeLessThanOrEqual(62)
  })

  it('ramp goes up its steps, and sees what each costs the node', async (context) => {
    needK6(context)
    const run = await runLoad('ramp', { ...FEW, ...STEPS })
    expectHeld(run)
    const { steps, breaking } = reportOf(run).found
    expect(steps).toMatchObject([{ rate: 10 }, { rate: 20 }])
    for (const { nodeCores } of steps) expect(nodeCores).toBeGreaterThan(0)
    expect(breaking).toMatchObject({ broken: null, best: { rate: 20 } })
  })

  it('sweep sends each size at its own rate', async (context) => {
    needK6(context)
    const run = await runLoad('sweep', { ...FEW, ...STEPS, RATE: '20', EVENT_RATE: '100', SIZES: '2,20' })
    expectHeld(run)
    const { steps } = reportOf(run).found
    expect(steps).toMatchObject([
      { events: 2, rate: 20 },
      { events: 20, rate: 5 },
    ])
    for (const { events, requests, eventsPerSecond, cpuMicrosecondsPerEvent } of steps) {
      expect(eventsPerSecond).toBe(requests * events)
      expect(cpuMicrosecondsPerEvent).toBeGreaterThan(0)
    }
  })

  it('soak takes samples of a node’s memory', async (context) => {
    needK6(context)
    const run = await runLoad('soak', { ...FEW, DURATION: '2s', SAMPLE_EVERY: '300ms', GROWTH_MB: '1000' })
    expectHeld(run)
    const { samples } = reportOf(run).found
    expect(samples.length).toBeGreaterThanOrEqual(3)
    for (const { resident, heap } of samples) expect(resident).toBeGreaterThan(heap)
  })

  // Which rate is a spike for a node is for its machine to say: a real one meets none here, a stand-in one of 20 requests.
  it('spike counts 503s by phase, and is void without any', async (context) => {
    needK6(context)
    // One at a time for 150 ms, and then five in a second: there are fewer than 24 before the spike, which has 60.
    const react = ({ request }: { request: number }) => ({ overloaded: request >= 24 && request < 44, delayMs: 150 })
    const standIn = await startStandIn({ react })
    const place = { BASE_URL: standIn.url, APP_KEY: KEY }
    const [overloaded, calm] = await Promise.all([
      runLoad('spike', { ...FEW, ...SPIKE, ...place, RATE: '5', SPIKE_RATE: '60', VUS: '70', EVENTS: '1' }),
      runLoad('spike', { ...FEW, ...SPIKE, RATE: '5', SPIKE_RATE: '20' }),
    ])
    await standIn.stop()
    expectHeld(overloaded, false)
    const { phases }: { phases: { name: string; overloaded: number }[] } = reportOf(overloaded).found
    expect(phases.filter((phase) => phase.overloaded > 0)).toMatchObject([{ name: 'spike', overloaded: 20 }])
    expect(calm.code).not.toBe(0)
    expect(reportOf(calm)).toMatchObject({ verdict: 'VOID', nodeAgrees: true, found: { overloaded: 0 } })
  })

  it('fails where objectives do not hold, and says which', async (context) => {
    needK6(context)
    const standIn = await startStandIn({
      react: ({ request }) => ({ overloaded: request > 12, withoutBatchId: request === 3 }),
    })
    const settings = { ...FEW, DURATION: '1s', LATENCY_OBJECTIVE_MS: '0.001', BASE_URL: standIn.url, APP_KEY: KEY }
    const run = await runLoad('steady', settings)
    await standIn.stop()
    const report = reportOf(run)
    expect({ code: run.code, verdict: report.verdict }).toEqual({ code: 99, verdict: 'FAILED' })
    const broken = report.objectives.flatMap(({ metric, isHeld }) => (isHeld ? [] : [metric]))
    expect(broken).toEqual(['available{phase:steady}', 'checks', 'http_req_duration{kind:event,phase:steady}'])
    const refused = { code: 'service_overloaded', sent: standIn.requests() - 12 }
    expect(report.outcomes).toContainEqual(expect.objectContaining(refused))
    expect(run.output).toContain('X-Batch-Id is a UUID on 202')
    expect(run.output.trimEnd().split('\n').at(-1)).toBe(`  FAILED: ${report.reasons.join('; ')}`)
  })

  it('ends at a signal with its node and its folder, and both reports are still written', async (context) => {
    needK6(context)
    const started = await startLoad(['steady'], { ...FEW, DURATION: '10m' })
    const place = () => /admin port at (\S+), data in (\S+)\/node/.exec(started.output())
    await eventually('a node is there', () => place() !== null, START_TIMEOUT_MS)
    const [, adminUrl, folder] = place() ?? []
    const accepted = async (): Promise<number> => {
      const page = await fetch(`${adminUrl}/metrics`).then((answer) => answer.text())
      return Number(/^sluice_requests_total\{status="202",code="accepted"\} (\d+)/m.exec(page)?.[1])
    }
    // k6 writes no page of a run of less than two seconds.
    await eventually('seconds of the load are over', async () => (await accepted()) > 40, START_TIMEOUT_MS)
    expect(existsSync(folder)).toBe(true)
    started.signal('SIGTERM')
    const run = await started.ended
    expect(run.code).toBe(130)
    const report = reportOf(run)
    expect(report.outcomes).toMatchObject([{ code: 'accepted' }])
    // What it would have met, nobody knows.
    expect({ verdict: report.verdict, reason: report.reasons[0] }).toEqual({
      verdict: 'VOID',
      reason: 'the run was interrupted',
    })
    expect(existsSync(folder)).toBe(false)
    await expect(fetch(`${adminUrl}/livez`)).rejects.toThrow('fetch failed')
    expect(run.html).toMatch(/<body><pre>[^]*steady: [^]*VOID: the run was interrupted[^]*<\/pre>/)
    const [, data = ''] = /<script id="data"[^>]*>([^<]+)</.exec(run.html) ?? []
    const figures = gunzipSync(Buffer.from(data, 'base64')).toString()
    expect(figures).toContain('http_req_duration{kind:event,phase:steady}')
    expect(run.html + figures + run.output, 'no key is written down').not.toContain('ak_load_ample')
    expect(run.html, 'the page needs nothing from elsewhere').not.toMatch(/(src|href)="(?!data:)|@import/)
  })
})

describe('the runner of load scripts', { timeout: TIMEOUT_MS }, () => {
  it('says how to get k6 where there is none, and that a K6 is none', async () => {
    const nowhere = { PATH: '/nowhere', HOME: '/nowhere' }
    const [none, wrong] = await Promise.all(['', '/nowhere/k6'].map((K6) => runLoad('smoke', { ...nowhere, K6 })))
    for (const run of [none, wrong]) expect(run).toMatchObject({ code: 1, report: null })
    expect(none.output).toContain('go install go.k6.io/k6@latest')
    expect(wrong.output).toContain('K6=/nowhere/k6: that is not k6')
  })

  it('lists every script with its question, and names what is wrong with its arguments', async () => {
    const commands = [['--list'], ['nonsense'], ['steady', '--speed', '9'], ['spike', '--help']]
    const runs = await Promise.all(commands.map(async (args) => (await startLoad(args)).ended))
    expect(runs.map(({ code }) => code)).toEqual([0, 1, 1, 0])
    const [listed, unknown, option, helped] = runs.map(({ output }) => output)
    const files = await readdir(resolve(import.meta.dirname, '../../load/k6'))
    for (const script of files.filter((name) => name.endsWith('.js')))
      expect(listed).toMatch(new RegExp(`^  ${script.replace('.js', '')} +\\S.*\\?$`, 'm'))
    expect(unknown).toContain('no such script: nonsense')
    expect(option).toContain('--speed')
    expect(helped).toContain('--spike-rate')
  })

  it('says what is wrong before it sends: no key, no service, and every mistake in the settings', async (context) => {
    needK6(context)
    const nowhere = { BASE_URL: 'http://127.0.0.1:1' }
    const [keyless, absent, mistaken] = await Promise.all([
      runLoad('steady', nowhere),
      runLoad('steady', { ...nowhere, APP_KEY: KEY }),
      runLoad('steady', { BASE_URL: 'here', APP_KEY: KEY, RATE: '-1', DURATION: '80h', EVENTS: '1.5' }),
    ])
    for (const run of [keyless, absent, mistaken]) expect(run).toMatchObject({ code: 1, report: null })
    expect(keyless.output).toContain('APP_KEY')
    expect(absent.output).toContain('no service at http://127.0.0.1:1')
    for (const name of ['BASE_URL=here', 'RATE=-1', 'DURATION=80h', 'EVENTS=1.5'])
      expect(mistaken.output).toContain(name)
  })
})
