import { expect, it } from 'vitest'
import { WhileAny } from '../../../src/lib/while-any.ts'
import { ManualTimers } from '../../support/timers.ts'

/** Counts the intervals that run. */
class CountedTimers extends ManualTimers {
  running = 0

  override setInterval(task: () => void, intervalMs: number) {
    this.running += 1
    return super.setInterval(task, intervalMs)
  }

  override clear(timer: ReturnType<ManualTimers['setTimeout']>) {
    this.running -= 1
    super.clear(timer)
  }
}

it('calls with all of them at each interval, by one timer', async () => {
  const timers = new CountedTimers()
  const called: string[] = []
  const watches = new WhileAny<string>(timers, 1000, (all) => called.push(...all))
  watches.add('a')
  await timers.pass(500)
  watches.add('b')
  await timers.pass(1500)
  expect(called).toEqual(['a', 'b', 'a', 'b'])
  expect(timers.running).toBe(1)
})

it('runs no timer without any, and one again for the next', async () => {
  const timers = new CountedTimers()
  let calls = 0
  const watches = new WhileAny<string>(timers, 1000, () => {
    calls += 1
  })
  expect(timers.running).toBe(0)
  watches.add('a')
  expect([watches.delete('a'), watches.delete('a')]).toEqual([true, false])
  await timers.pass(3000)
  expect({ calls, running: timers.running }).toEqual({ calls: 0, running: 0 })
  watches.add('b')
  await timers.pass(1000)
  expect({ calls, running: timers.running }).toEqual({ calls: 1, running: 1 })
  watches.clear()
  await timers.pass(1000)
  expect({ calls, running: timers.running, size: watches.all.size }).toEqual({ calls: 1, running: 0, size: 0 })
})
