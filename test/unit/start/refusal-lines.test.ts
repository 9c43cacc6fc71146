import { describe, expect, it } from 'vitest'
import type { RefusalLine } from '../../../src/console/refusal.ts'
import type { Timers } from '../../../src/lib/timers.ts'
import { logRefusals } from '../../../src/start/refusal-lines.ts'

/** Logs with a clock that the test turns. */
function logging() {
  const lines: unknown[][] = []
  const due: RefusalLine[] = []
  let tick = (): void => {}
  const timers = {
    setInterval: (task: () => void) => {
      tick = task
      return { unref: () => {} }
    },
    clear: () => {
      tick = () => {}
    },
  } as unknown as Timers
  const log = { info: (...line: unknown[]) => void lines.push(line) } as Parameters<typeof logRefusals>[0]['log']
  const stop = logRefusals({ takeLines: () => due.splice(0), log, timers })
  return { lines, due, stop, turnMinute: () => tick() }
}

function line(appId: string | null, count: number): RefusalLine {
  return { app_id: appId, code: 'validation_failed', count, message: 'events: required', request_id: 'id' }
}

describe('the log of refusals', () => {
  it('has one line a minute for each app and code', () => {
    const { lines, due, turnMinute } = logging()
    due.push(line('shop', 37), line(null, 1))
    expect(lines).toEqual([])
    turnMinute()
    turnMinute()
    expect(lines).toEqual([
      [
        { app: 'shop', code: 'validation_failed', count: 37, message: 'events: required', request_id: 'id' },
        'refused 37 requests of app shop: validation_failed',
      ],
      [
        { app: null, code: 'validation_failed', count: 1, message: 'events: required', request_id: 'id' },
        'refused 1 request: validation_failed',
      ],
    ])
  })

  it('has at most 100 of them, and one that says how many more', () => {
    const { lines, due, turnMinute } = logging()
    for (let n = 0; n < 150; n++) due.push(line(`app-${n}`, 2))
    turnMinute()
    expect(lines).toHaveLength(101)
    expect(lines[100]).toEqual([{ count: 100 }, 'refused 100 requests more, of 50 other pairs of app and code'])
  })

  it('has the rest when the service stops', () => {
    const { lines, due, stop } = logging()
    due.push(line('shop', 2))
    stop()
    expect(lines).toHaveLength(1)
  })
})
