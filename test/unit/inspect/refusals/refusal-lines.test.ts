import { describe, expect, it } from 'vitest'
import { OVERLOAD_REASONS } from '../../../../src/contract/outcome.ts'
import type { RefusalLine } from '../../../../src/inspect/refusals/refusal.ts'
import { logRefusals, type RefusalLinesOptions } from '../../../../src/inspect/refusals/refusal-lines.ts'
import type { Refusals } from '../../../../src/inspect/refusals/refusals.ts'
import { ManualTimers } from '../../../support/timers.ts'
import { aRefusal } from '../reports.ts'

/** Logs with a clock that the test turns. */
function logging() {
  const lines: unknown[][] = []
  const warnings: unknown[][] = []
  const due: RefusalLine[] = []
  const timers = new ManualTimers()
  const refusals: Pick<Refusals, 'takeLines' | 'onOverload'> = { takeLines: () => due.splice(0), onOverload: null }
  const log = {
    info: (...line: unknown[]) => void lines.push(line),
    warn: (...line: unknown[]) => void warnings.push(line),
  } as unknown as RefusalLinesOptions['log']
  const stop = logRefusals({ refusals, log, timers })
  return { lines, warnings, due, refusals, timers, stop, turnMinute: () => timers.pass(60_000) }
}

function line(appId: string | null, count: number): RefusalLine {
  const what = { code: 'validation_failed', reason: null, origin: null, message: 'events: required', request_id: 'id' }
  return { app_id: appId, count, ...what }
}

describe('the log of refusals', () => {
  it('has one line a minute for each app and code', async () => {
    const { lines, due, turnMinute } = logging()
    due.push(line('shop', 37), line(null, 1))
    due.push({ ...line('two', 9), code: 'rate_limit_exceeded', reason: 'bytes', message: 'bytes are used up' })
    expect(lines).toEqual([])
    await turnMinute()
    await turnMinute()
    expect(lines).toEqual([
      [
        { app: 'shop', code: 'validation_failed', count: 37, message: 'events: required', request_id: 'id' },
        'refused 37 requests of app shop: validation_failed',
      ],
      [
        { app: null, code: 'validation_failed', count: 1, message: 'events: required', request_id: 'id' },
        'refused 1 request: validation_failed',
      ],
      [
        {
          app: 'two',
          code: 'rate_limit_exceeded',
          reason: 'bytes',
          count: 9,
          message: 'bytes are used up',
          request_id: 'id',
        },
        'refused 9 requests of app two: rate_limit_exceeded (bytes)',
      ],
    ])
  })

  it('has at most 100 of them, and one that says how many more', async () => {
    const { lines, due, turnMinute } = logging()
    for (let n = 0; n < 150; n++) due.push(line(`app-${n}`, 2))
    await turnMinute()
    expect(lines).toHaveLength(101)
    expect(lines[100]).toEqual([{ count: 100 }, 'refused 100 requests more, of 50 other pairs of app and code'])
  })

  it('has the rest when the service stops', () => {
    const { lines, due, refusals, stop } = logging()
    due.push(line('shop', 2))
    stop()
    expect(lines).toHaveLength(1)
    expect(refusals.onOverload).toBe(null)
  })

  it('names the time since its last lines where that is less than a minute, when the service stops', async () => {
    const { warnings, due, timers, turnMinute, stop } = logging()
    await turnMinute()
    await timers.pass(12_000)
    const what = {
      code: 'service_overloaded',
      reason: 'ring_full',
      origin: null,
      message: '',
      request_id: 'id',
    } as const
    due.push({ app_id: null, count: 2, ...what })
    stop()
    expect(warnings).toEqual([
      [expect.anything(), expect.stringMatching(/^refused 2 requests with 503 in the last 12 s \(ring_full\): /)],
    ])
  })

  it.each(OVERLOAD_REASONS)(
    'warns of %s at once and each minute: what happened, what clients notice, what to do',
    async (reason) => {
      const { lines, warnings, due, refusals, turnMinute } = logging()
      const code = 'service_overloaded'
      refusals.onOverload?.(aRefusal({ code, reason, app_id: 'shop', request_id: 'first' }))
      due.push({
        app_id: null,
        code,
        reason,
        origin: null,
        count: 12,
        message: 'the same for all',
        request_id: 'first',
      })
      await turnMinute()
      expect(lines).toEqual([])
      expect(warnings).toEqual([
        [{ app: 'shop', code, reason, request_id: 'first' }, expect.any(String)],
        [{ code, reason, count: 12, request_id: 'first' }, expect.any(String)],
      ])
      const [[, first], [, minute]] = warnings as string[][]
      const [name, advice] = first.split(/(?<=\)): /)
      expect(name).toBe(`503 (${reason})`)
      expect(minute).toBe(`refused 12 requests with 503 in the last minute (${reason}): ${advice}`)
      expect(advice.split('; ').length).toBeGreaterThanOrEqual(3)
    },
  )
})
