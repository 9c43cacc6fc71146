// The script `limits`, run for real: what it finds of a service that keeps its limits, and of one that does not.

import { describe, expect, test } from 'vitest'
import { limitRecords } from '../../load/k6/shared/limit-apps.js'
import { brokenObjectives, needK6, runLoad, sentAs } from '../support/k6.ts'
import { makeFolder, removeFolder, startService } from '../support/service.ts'

/** The wait for the end of a minute, and the run. */
const TIMEOUT_MS = 180_000
/** The end of one window and the beginning of the next. */
const SHORT = { WINDOWS: '0', EVENTS_PER_MINUTE: '300' }

describe('the load script of limits', () => {
  test.concurrent('an app at many times its plan gets its plan in each window, and its client can obey what it is told', {
    timeout: TIMEOUT_MS,
  }, async (context) => {
    needK6(context)
    const { code, output, report } = await runLoad('limits', SHORT)
    expect(report?.verdict, output).toBe('HELD')
    expect(report?.found['accepted'], output).toEqual([300, 300])
    expect(report?.verified, output).toMatchObject({ ok: true })
    expect(report?.verified?.lines).toContain('load-limits-greedy: 600 events in the queue, 300 + 300 by minute')
    for (const refusal of ['rate_limit_exceeded', 'daily_limit_exceeded', 'monthly_limit_exceeded']) {
      expect(sentAs(report, refusal), refusal).toBeGreaterThan(0)
    }
    expect(report?.nodeAgrees).toBe(true)
    expect(code).toBe(0)
  })

  test.concurrent('a service that lets in twice the plan is found out, by its answers and by its queue', {
    timeout: TIMEOUT_MS,
  }, async (context) => {
    needK6(context)
    const dataDir = await makeFolder()
    const service = await startService({ dataDir, apps: limitRecords(300) })
    const { code, output, report } = await runLoad('limits', {
      WINDOWS: '0',
      EVENTS_PER_MINUTE: '150',
      BASE_URL: `http://127.0.0.1:${service.port}`,
      APP_KEY: 'ak_load_limits_greedy',
      SLUICE_DATA_DIR: dataDir,
    })
    await service.stop()
    await removeFolder(dataDir)
    expect(code, output).not.toBe(0)
    expect(report?.verdict, output).toBe('FAILED')
    expect(brokenObjectives(report)).toContain('limits_window_events{window:0}')
    expect(report?.verified, output).toMatchObject({ ok: false })
    expect(report?.verified?.lines.join('\n')).toMatch(/WRONG: load-limits-greedy: 300 events of 150 in the minute/)
  })
})
