// The script `retries`, run for real: a node that freezes, and clients that send again under their keys, or under fresh ones.

import { describe, expect, test } from 'vitest'
import { type Environment, type LoadRun, needK6, reportOf, runLoad, sentAs, startLoad } from '../support/k6.ts'
import { appRecord, eventually, makeFolder, removeFolder, startService } from '../support/service.ts'
import { startStandIn } from '../support/stand-in.ts'

const TIMEOUT_MS = 300_000
const START_TIMEOUT_MS = 60_000
// k6 takes a while to make many virtual users: so many wait at the most.
const SHORT = { DURATION: '6s', RATE: '12', VUS: '120' }
/** Whether a node that wakes has to answer 503 is for its machine to say: a run that met none asks again, for longer. */
const LONGER = ['15s', '30s']

async function runUntilMet(settings: Environment): Promise<LoadRun> {
  let run = await runLoad('retries', settings)
  for (const DURATION of LONGER) {
    const { verdict, reasons } = reportOf(run)
    if (verdict !== 'VOID' || !reasons.every((reason) => reason.startsWith('the run met no '))) break
    run = await runLoad('retries', { ...settings, DURATION })
  }
  return run
}

describe('the load script of retries', () => {
  test.concurrent('what is sent again under its key after timeouts, 503s and beside its twin is accepted once', {
    timeout: TIMEOUT_MS,
  }, async (context) => {
    needK6(context)
    const { code, output, report } = await runUntilMet(SHORT)
    expect(report?.verdict, output).toBe('HELD')
    expect(report?.verified, output).toMatchObject({ ok: true })
    // Each of these was met, or the run would say nothing.
    for (const met of ['no_answer', 'service_overloaded', 'replayed']) {
      expect(sentAs(report, met), met).toBeGreaterThan(0)
    }
    expect(report?.verified?.lines[0]).toMatch(/^(\d+) batches, \1 seen accepted, \1 records in the queue$/)
    expect(code).toBe(0)
  })

  test.concurrent('clients that send again under a fresh key are found out by the queue', {
    timeout: TIMEOUT_MS,
  }, async (context) => {
    needK6(context)
    const { code, output, report, html } = await runLoad('retries', { ...SHORT, KEY_ON_RETRY: 'fresh' })
    expect(code, output).not.toBe(0)
    expect(report?.verdict, output).toBe('FAILED')
    expect(html).toContain('<p class="verdict FAILED">FAILED</p>')
    expect(html).toMatch(/<td class="broken">WRONG: batch \S+: [2-9] records in the queue</)
    expect(output).not.toMatch(/HELD/)
    expect(output.trimEnd().split('\n').at(-1)).toMatch(/^ {2}FAILED: batch /)
    expect(report?.verified, output).toMatchObject({ ok: false })
    expect(report?.verified?.lines.join('\n')).toMatch(/WRONG: batch \S+: [2-9] records in the queue/)
  })

  test.concurrent('batches that are cut off are counted, and a run that was interrupted is void', {
    timeout: TIMEOUT_MS,
  }, async (context) => {
    needK6(context)
    const standIn = await startStandIn({ react: () => ({ overloaded: true }) })
    const place = { BASE_URL: standIn.url, APP_KEY: 'ak_load_test', APP_ID: 'load-test' }
    const started = await startLoad(['retries'], { ...SHORT, ...place, DURATION: '10m' })
    await eventually('some were refused', () => standIn.requests() > 20, START_TIMEOUT_MS)
    started.signal('SIGINT')
    const { code, output, report } = await started.ended
    await standIn.stop()
    expect(code, output).toBe(130)
    expect(report?.verdict, output).toBe('VOID')
    expect(report?.reasons[0]).toBe('the run was interrupted')
    expect(report?.reasons.join('\n')).toMatch(/^[1-9]\d* batches were cut off before they were done$/m)
  })

  test.concurrent('without its queue a run that held is void: nobody counted what was stored', {
    timeout: TIMEOUT_MS,
  }, async (context) => {
    needK6(context)
    const folder = await makeFolder()
    const limits = { events_per_minute: 1_000_000, events_per_month: 1_000_000 }
    const service = await startService({ dataDir: folder, apps: [appRecord('load_test', limits)] })
    const place = { BASE_URL: `http://127.0.0.1:${service.port}`, APP_KEY: 'ak_load_test', APP_ID: 'load-test' }
    const { code, output, report } = await runLoad('retries', { ...SHORT, ...place, DURATION: '1s' })
    await service.stop()
    await removeFolder(folder)
    expect(code, output).toBe(1)
    expect(report?.verdict, output).toBe('VOID')
    expect(report?.reasons).toEqual(['the queue was not read: NATS_URL or SLUICE_DATA_DIR names it'])
  })
})
