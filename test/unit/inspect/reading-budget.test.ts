import { expect, it } from 'vitest'
import { ReadingBudget } from '../../../src/inspect/reading-budget.ts'
import { ManualTimers } from '../../support/timers.ts'

it('gives each app twenty seconds of reading a minute, and says when there are more', async () => {
  const timers = new ManualTimers()
  const budget = new ReadingBudget(timers)
  for (let question = 0; question < 10; question++) {
    expect(budget.secondsLeft('greedy')).toBe(0)
    await timers.pass(2000)
    budget.add('greedy', 2000)
  }
  expect([budget.secondsLeft('greedy'), budget.secondsLeft('other')]).toEqual([40, 0])
  await timers.pass(39_500)
  expect(budget.secondsLeft('greedy')).toBe(1)
  await timers.pass(500)
  expect(budget.secondsLeft('greedy')).toBe(0)
})
