// The script `retries`, run for real: a node that freezes, and clients that send again under their keys, or under fresh ones.

import { describe, expect, test } from 'vitest'
import { needK6, runLoad, sentAs } from '../support/k6.ts'

const TIMEOUT_MS = 180_000
// k6 takes a while to make many virtual users: so many wait at the most.
const SHORT = { DURATION: '6s', RATE: '12', VUS: '120' }

describe('the load script of retries', () => {
  test.concurrent('what is sent again under its key after timeouts, 503s and beside its twin is accepted once', {
    timeout: TIMEOUT_MS,
  }, async (context) => {
    needK6(context)
    const { code, output, report } = await runLoad('retries', SHORT)
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
    const { code, output, report } = await runLoad('retries', { ...SHORT, KEY_ON_RETRY: 'fresh' })
    expect(code, output).not.toBe(0)
    expect(report?.verified, output).toMatchObject({ ok: false })
    expect(report?.verified?.lines.join('\n')).toMatch(/WRONG: batch \S+: [2-9] records in the queue/)
  })
})
