import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Log } from '../../../src/observe/log.ts'
import { bugHandler, signalHandler } from '../../../src/start/ending.ts'
import { droppedPromise } from '../../support/library-faults.ts'

let exits: number[]
let said: string[]
const log = {
  info: (_: unknown, message?: string) => void said.push(message ?? String(_)),
  warn: (_: unknown, message: string) => void said.push(message),
  error: (_: unknown, message: string) => void said.push(message),
  fatal: (_: unknown, message?: string) => void said.push(message ?? String(_)),
} as unknown as Log

beforeEach(() => {
  exits = []
  said = []
  written = () => Promise.resolve()
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

function handler(stop: () => Promise<void>): (signal: string) => void {
  return signalHandler({ log, clock: Date.now, watchdogMs: 6000, stop, written, exit: (code) => void exits.push(code) })
}

let written: () => Promise<void>

const never = (): Promise<void> => new Promise(() => {})

describe('a signal', () => {
  test('drains once, and a clean stop ends with 0', async () => {
    const stop = vi.fn<() => Promise<void>>(() => Promise.resolve())
    handler(stop)('SIGTERM')
    await vi.advanceTimersByTimeAsync(0)
    expect(stop).toHaveBeenCalledTimes(1)
    expect(exits).toEqual([0])
  })

  test('ends when the lines before the last are written', async () => {
    let done: () => void = () => {}
    written = () => new Promise((resolve) => (done = resolve))
    handler(() => Promise.resolve())('SIGTERM')
    await vi.advanceTimersByTimeAsync(0)
    expect(said).not.toContain('stopped')
    expect(exits).toEqual([])
    done()
    await vi.advanceTimersByTimeAsync(0)
    expect(exits).toEqual([0])
  })

  test('whose drain fails ends with 1', async () => {
    handler(() => Promise.reject(new Error('no')))('SIGTERM')
    await vi.advanceTimersByTimeAsync(0)
    expect(exits).toEqual([1])
    expect(said).toContain('bug: the drain failed; ending now, requests in progress get no answer')
  })

  test('that arrives twice for one key press counts once', () => {
    const onSignal = handler(never)
    onSignal('SIGINT')
    vi.advanceTimersByTime(50)
    onSignal('SIGINT')
    expect(exits).toEqual([])
  })

  test('that is repeated during the drain ends the process at once', () => {
    const onSignal = handler(never)
    onSignal('SIGTERM')
    vi.advanceTimersByTime(600)
    onSignal('SIGTERM')
    expect(exits).toEqual([1])
  })

  test('that is repeated is ignored in a worker process, which also gets the signals of its supervisor', async () => {
    let drained: () => void = () => {}
    const stop = () => new Promise<void>((resolve) => (drained = resolve))
    const exit = (code: number) => void exits.push(code)
    const onSignal = signalHandler({ log, clock: Date.now, watchdogMs: 6000, stop, written, exit, again: 'ignore' })
    onSignal('SIGTERM')
    vi.advanceTimersByTime(600)
    onSignal('SIGTERM')
    expect(exits).toEqual([])
    drained()
    await vi.advanceTimersByTimeAsync(0)
    expect(exits).toEqual([0])
  })

  test('whose drain hangs ends with 1, by the watchdog', () => {
    handler(never)('SIGTERM')
    vi.advanceTimersByTime(5999)
    expect(exits).toEqual([])
    vi.advanceTimersByTime(1)
    expect(exits).toEqual([1])
    expect(said).toContain('the drain did not end in time: ending now; requests in progress get no answer')
  })
})

test('a bug is logged, and ends the process with 1', () => {
  const faults = { ioredis: 0, nats: 0 }
  const handle = bugHandler({ log, exit: (code) => void exits.push(code), faults }, 'an error was not caught')
  handle(new Error('bug'))
  expect(faults).toEqual({ ioredis: 0, nats: 0 })
  expect(said).toEqual(['bug: an error was not caught; this process ends'])
  expect(exits).toEqual([1])
})

test('what a client library left unhandled is logged and counted, and ends nothing', async () => {
  const faults = { ioredis: 0, nats: 0 }
  const handle = bugHandler({ log, exit: (code) => void exits.push(code), faults }, 'a rejection was not handled')
  const error = await droppedPromise()
  handle(error)
  handle(error)
  expect(exits).toEqual([])
  expect(faults).toEqual({ ioredis: 2, nats: 0 })
  const line =
    'a fault of the client library ioredis: a rejection was not handled (Connection is closed.); this process goes on, and clients notice nothing of it'
  expect(said).toEqual([line, line])
})
