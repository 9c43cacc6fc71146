// The script `mixed`, run for real: a small fleet with every class of app in it.

import { describe, expect, test } from 'vitest'
import { makeFleet, readFleetSettings } from '../../load/k6/shared/fleet.js'
import { brokenObjectives, needK6, runLoad, sentAs } from '../support/k6.ts'
import { makeFolder, removeFolder, startService } from '../support/service.ts'

const TIMEOUT_MS = 180_000
/** So few apps that each class is met within seconds. */
const SHORT = { DURATION: '12s', RATE: '60', APPS: '40', ZIPF: '0.5', WAVES: '2', VUS: '60' }

describe('the load script of a mixed fleet', () => {
  test('each app of a fleet gets what its plan says, and the queue has what was accepted', {
    timeout: TIMEOUT_MS,
  }, async (context) => {
    needK6(context)
    const { code, output, report } = await runLoad('mixed', SHORT)
    expect(report?.verdict, output).toBe('HELD')
    expect(report?.verified, output).toMatchObject({ ok: true })
    expect(report?.nodeAgrees).toBe(true)
    for (const met of [
      'accepted',
      'replayed',
      'rate_limit_exceeded',
      'daily_limit_exceeded',
      'monthly_limit_exceeded',
      'subscription_inactive',
      'trial_expired',
      'invalid_app_key',
    ]) {
      expect(sentAs(report, met), met).toBeGreaterThan(0)
    }
    expect(code).toBe(0)
  })

  test('a service that lets inactive apps send, and knows no daily limit, is found out', {
    timeout: TIMEOUT_MS,
  }, async (context) => {
    needK6(context)
    const { options } = readFleetSettings({ ...SHORT, BASE_URL: 'http://127.0.0.1', APP_KEY: 'ak_none' })
    const apps = makeFleet(options).flatMap(({ record, kind }) => {
      if (record === null) return []
      const { events_per_day: _, ...rest } = record
      return [kind === 'inactive' ? { ...rest, subscription: 'active' } : rest]
    })
    const dataDir = await makeFolder()
    const service = await startService({ dataDir, apps })
    const { code, output, report } = await runLoad('mixed', {
      ...SHORT,
      BASE_URL: `http://127.0.0.1:${service.port}`,
      APP_KEY: apps[0].app_key,
      SLUICE_DATA_DIR: dataDir,
    })
    await service.stop()
    await removeFolder(dataDir)
    expect(code, output).not.toBe(0)
    expect(report?.verdict, output).toBe('FAILED')
    const broken = brokenObjectives(report)
    expect(broken).toEqual(
      expect.arrayContaining([
        'fleet_answered_right{class:inactive}',
        'fleet_marks{class:inactive}',
        'fleet_marks{class:day}',
      ]),
    )
    expect(broken.filter((metric) => /class:(within|minute|month|expired|unknown)/.test(metric))).toEqual([])
    expect(report?.verified?.lines.join('\n'), output).toMatch(/WRONG: fleet-day-\d+: \d+ events of \d+ on /)
  })
})
