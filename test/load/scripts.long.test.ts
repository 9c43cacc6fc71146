// Every load script of a single question, run for real in a short form: against a node that the runner starts, and
// against a service that misbehaves, which the script has to notice.

import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { brokenObjectives, needK6, reportOf, runLoad, sentAs, startLoad } from '../support/k6.ts'
import { appRecord, eventually, makeFolder, removeFolder, startService } from '../support/service.ts'
import { type StandInOptions, startStandIn } from '../support/stand-in.ts'

const KEY = 'ak_load_test'
/** A run takes some seconds; a machine that does much else makes it more. */
const TIMEOUT_MS = 180_000
const START_TIMEOUT_MS = 60_000
/** What a few requests a second need: k6 takes a while to make many. */
const FEW = { VUS: '20' }

async function againstStandIn(name: string, options: StandInOptions, environment: Record<string, string> = {}) {
  const standIn = await startStandIn(options)
  try {
    const run = await runLoad(name, { BASE_URL: standIn.url, APP_KEY: KEY, ...FEW, ...environment })
    return { ...run, report: reportOf(run), requests: standIn.requests() }
  } finally {
    await standIn.stop()
  }
}

describe('load scripts', { timeout: TIMEOUT_MS }, () => {
  it('smoke sees every kind of answer of a local node, and the node has counted the same', async (context) => {
    needK6(context)
    const { code, report: written, html, output } = await runLoad('smoke')
    const report = reportOf({ code, report: written, html, output })
    expect({ code, verdict: report.verdict, reasons: report.reasons }).toEqual({
      code: 0,
      verdict: 'HELD',
      reasons: [],
    })
    expect(report.nodeAgrees).toBe(true)
    expect(report.outcomes.map((outcome) => outcome.code).toSorted()).toEqual(
      [
        'accepted',
        'replayed',
        'validation_failed',
        'invalid_json',
        'invalid_app_key',
        'subscription_inactive',
        'trial_expired',
      ]
        .concat(['not_found', 'method_not_allowed', 'payload_too_large', 'unsupported_media_type'])
        .concat(['rate_limit_exceeded', 'daily_limit_exceeded', 'monthly_limit_exceeded'])
        .toSorted(),
    )
    expect(html).toContain('HELD')
    expect(html, 'the page needs nothing from elsewhere').not.toMatch(/(src|href)=|url\(|@import/)
    expect(html + output, 'no key is written down').not.toContain('ak_load_ample')
  })

  it('steady sends what it says it sends, and a service elsewhere has counted it', async (context) => {
    needK6(context)
    const folder = await makeFolder()
    const limits = { events_per_minute: 1_000_000, events_per_month: 1_000_000 }
    const service = await startService({ dataDir: folder, apps: [appRecord('load_test', limits)] })
    try {
      const [baseUrl, adminUrl] = [`http://127.0.0.1:${service.port}`, `http://127.0.0.1:${service.adminPort}`]
      const settings = { ...FEW, RATE: '20', DURATION: '2s', EVENTS: '7' }
      const run = await runLoad('steady', { BASE_URL: baseUrl, ADMIN_URL: adminUrl, APP_KEY: KEY, ...settings })
      const report = reportOf(run)
      expect({ code: run.code, verdict: report.verdict, reasons: report.reasons }).toMatchObject({
        code: 0,
        verdict: 'HELD',
      })
      const page = await (await fetch(`${adminUrl}/metrics`)).text()
      const counted = Number(/^sluice_requests_total\{status="202",code="accepted"\} (\d+)/m.exec(page)?.[1])
      // One second of warm-up, two of the load; k6 may begin one more as the time of each is up, and fewer where it is late.
      expect(counted).toBeGreaterThan(30)
      expect(counted).toBeLessThanOrEqual(62)
      expect(report.outcomes).toEqual([{ code: 'accepted', sent: counted, node: counted }])
      expect(report.events).toBe(counted * 7)
    } finally {
      await service.stop()
      await removeFolder(folder)
    }
  })

  it('a run whose rate was not sent is void, and ends with an error', async (context) => {
    needK6(context)
    const settings = { RATE: '20', DURATION: '2s', VUS: '1', EVENTS: '1' }
    const { code, report, output } = await againstStandIn('steady', { react: () => ({ delayMs: 400 }) }, settings)
    expect(code).toBe(99)
    expect(report.verdict).toBe('VOID')
    expect(report.dropped).toBeGreaterThan(0)
    expect(output).toContain(`VOID: ${report.dropped} iterations were dropped`)
  })

  it('an objective that does not hold fails the run', async (context) => {
    needK6(context)
    const settings = { RATE: '10', DURATION: '1s', EVENTS: '1' }
    const [slow, refusing, careless] = await Promise.all([
      againstStandIn('steady', {}, { ...settings, LATENCY_OBJECTIVE_MS: '0.001' }),
      againstStandIn('steady', { react: ({ request }) => ({ overloaded: request > 12 }) }, settings),
      againstStandIn('steady', { react: ({ request }) => ({ withoutBatchId: request === 3 }) }, settings),
    ])
    expect({ code: slow.code, verdict: slow.report.verdict }).toEqual({ code: 99, verdict: 'FAILED' })
    expect(brokenObjectives(slow.report)).toEqual(['http_req_duration{kind:event,phase:steady}'])
    expect({ code: refusing.code, verdict: refusing.report.verdict }).toEqual({ code: 99, verdict: 'FAILED' })
    expect(brokenObjectives(refusing.report)).toEqual(['available{phase:steady}'])
    expect(sentAs(refusing.report, 'service_overloaded')).toBe(refusing.requests - 12)
    expect({ code: careless.code, verdict: careless.report.verdict }).toEqual({ code: 99, verdict: 'FAILED' })
    expect(brokenObjectives(careless.report)).toEqual(['checks'])
    expect(careless.output).toContain('X-Batch-Id is a UUID on 202')
  })

  it('a signal ends the run, its node and its folder, and the report is still written', async (context) => {
    needK6(context)
    const started = await startLoad(['steady'], { ...FEW, RATE: '20', DURATION: '10m', EVENTS: '1' })
    const place = () => /admin port at (\S+), data in (\S+)\/node/.exec(started.output())
    await eventually('a node is there', () => place() !== null, START_TIMEOUT_MS)
    const [, adminUrl, folder] = place() ?? []
    await eventually(
      'the load has begun',
      async () => {
        const page = await fetch(`${adminUrl}/metrics`).then((answer) => answer.text())
        return /^sluice_requests_total\{status="202",code="accepted"\} [1-9]/m.test(page)
      },
      START_TIMEOUT_MS,
    )
    expect(existsSync(folder)).toBe(true)
    started.signal('SIGTERM')
    const run = await started.ended
    expect(run.code).toBe(130)
    expect(reportOf(run).outcomes).toMatchObject([{ code: 'accepted' }])
    // What it would have met, nobody knows.
    expect(reportOf(run).verdict).toBe('VOID')
    expect(reportOf(run).reasons[0]).toBe('the run was interrupted')
    expect(existsSync(folder)).toBe(false)
    await expect(fetch(`${adminUrl}/livez`)).rejects.toThrow('fetch failed')
  })
})

describe('the runner of load scripts', { timeout: TIMEOUT_MS }, () => {
  it('says how to get k6 where there is none', async () => {
    const home = await makeFolder()
    const run = await runLoad('smoke', { PATH: home, HOME: home, K6: '' })
    await removeFolder(home)
    expect(run).toMatchObject({ code: 1, report: null })
    expect(run.output).toContain('go install go.k6.io/k6@latest')
  })

  it('lists every script with its question, and names what is wrong with its arguments', async () => {
    const run = async (...args: string[]) => (await startLoad(args)).ended
    const [listed, unknown, option, helped] = await Promise.all([
      run('--list'),
      run('nonsense'),
      run('steady', '--speed', '9'),
      run('spike', '--help'),
    ])
    expect(listed.code).toBe(0)
    const scripts = await readdir(resolve(import.meta.dirname, '../../load/k6'))
    for (const script of scripts.filter((name) => name.endsWith('.js'))) {
      expect(listed.output).toMatch(new RegExp(`^  ${script.replace('.js', '')} +\\S.*\\?$`, 'm'))
    }
    expect(unknown).toMatchObject({ code: 1 })
    expect(unknown.output).toContain('no such script: nonsense')
    expect(option).toMatchObject({ code: 1 })
    expect(option.output).toContain('--speed')
    expect(helped.code).toBe(0)
    expect(helped.output).toContain('--spike-rate')
  })

  it('wants a key for a service elsewhere, and ends where there is no service', async (context) => {
    needK6(context)
    const nowhere = { BASE_URL: 'http://127.0.0.1:1' }
    const [keyless, absent] = await Promise.all([
      runLoad('steady', nowhere),
      runLoad('steady', { ...nowhere, ...FEW, APP_KEY: KEY }),
    ])
    expect(keyless).toMatchObject({ code: 1, report: null })
    expect(keyless.output).toContain('APP_KEY')
    expect(absent.code).not.toBe(0)
    expect(absent.output).toContain('no service at http://127.0.0.1:1')
  })

  it('says every mistake in the settings at once', async (context) => {
    needK6(context)
    const run = await runLoad('steady', { BASE_URL: 'here', APP_KEY: KEY, RATE: '-1', DURATION: '80h', EVENTS: '1.5' })
    expect(run.code).not.toBe(0)
    for (const name of ['BASE_URL=here', 'RATE=-1', 'DURATION=80h', 'EVENTS=1.5']) expect(run.output).toContain(name)
  })
})
