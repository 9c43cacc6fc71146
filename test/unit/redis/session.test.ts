import { getEventListeners } from 'node:events'
import { expect, it } from 'vitest'
import { withTimeout } from '../../../src/redis/session.ts'
import { ManualTimers } from '../../support/timers.ts'

it('a wait for an answer leaves nothing behind, whether it comes, never comes or is given up', async () => {
  const timers = new ManualTimers()
  const stopping = new AbortController()
  const { signal } = stopping
  const listeners = (): number => getEventListeners(signal, 'abort').length
  const silent = new Promise<string>(() => {})
  expect(await withTimeout(Promise.resolve('answer'), 50, signal, timers)).toBe('answer')
  expect(listeners()).toBe(0)
  const problemOf = (waiting: Promise<string>): Promise<string> => waiting.catch((error: unknown) => String(error))
  const late = problemOf(withTimeout(silent, 50, signal, timers))
  expect(listeners()).toBe(1)
  await timers.pass(50)
  expect(await late).toBe('Error: no answer in 50 ms')
  expect(listeners()).toBe(0)
  const givenUp = problemOf(withTimeout(silent, 50, signal, timers))
  stopping.abort()
  expect(await givenUp).toBe('Error: given up')
  expect(listeners()).toBe(0)
  await expect(withTimeout(silent, 50, signal, timers)).rejects.toThrow('given up')
})
