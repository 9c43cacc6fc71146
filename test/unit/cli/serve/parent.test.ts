import { expect, test } from 'vitest'
import { watchParent } from '../../../../src/cli/serve/parent.ts'
import { ManualTimers } from '../../../support/timers.ts'

function watched() {
  const timers = new ManualTimers()
  const parent = { id: 7 }
  let ends = 0
  const stop = watchParent({
    timers,
    parentId: () => parent.id,
    onEnd: () => {
      ends++
    },
  })
  return { timers, parent, stop, ends: () => ends }
}

test('a parent that goes on is left alone, and its end is told once', async () => {
  const { timers, parent, ends } = watched()
  await timers.pass(60_000)
  expect(ends()).toBe(0)
  parent.id = 1
  await timers.pass(1000)
  parent.id = 2
  await timers.pass(60_000)
  expect(ends()).toBe(1)
})

test('nothing is told once the watch has stopped', async () => {
  const { timers, parent, stop, ends } = watched()
  stop()
  parent.id = 1
  await timers.pass(60_000)
  expect(ends()).toBe(0)
})
