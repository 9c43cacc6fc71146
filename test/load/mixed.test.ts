// The script `mixed`, run for real: a small fleet with every class of app in it.

import { describe, expect, test } from 'vitest'
import { needK6, runLoad, sentAs } from '../support/k6.ts'

const TIMEOUT_MS = 180_000

describe('the load script of a mixed fleet', () => {
  test('each app of a fleet gets what its plan says, and the queue has what was accepted', {
    timeout: TIMEOUT_MS,
  }, async (context) => {
    needK6(context)
    const { code, output, report } = await runLoad('mixed', {
      DURATION: '12s',
      RATE: '60',
      APPS: '60',
      ZIPF: '0.7',
      WAVES: '2',
    })
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
})
