// The timing of a slot: the pause before a replacement, and the timeouts of answers.

import type { ChildProcess } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Log } from '../../../src/observe/log.ts'
import { mergePages } from '../../../src/observe/merged-page.ts'
import type { Asking, Report } from '../../../src/supervisor/messages.ts'
import { WorkerSlot } from '../../../src/supervisor/worker-slot.ts'

/** A child process without a real process. It answers unless it is mute. */
class FakeChild extends EventEmitter {
  readonly pid = 4711
  readonly asked: string[] = []
  readonly signals: string[] = []
  mute = false

  say(report: Report): void {
    this.emit('message', report)
  }

  send({ ask }: Asking): void {
    this.asked.push(ask)
    if (!this.mute) this.answer(ask)
  }

  answer(ask: string): void {
    const text = '# HELP n_total N.\n# TYPE n_total counter\nn_total 5\n# HELP g G.\n# TYPE g gauge\ng 1\n'
    if (ask === 'page') this.say({ kind: 'page', text })
    else this.say({ kind: 'health', ready: true, parts: [] })
  }

  kill(signal: NodeJS.Signals): void {
    this.signals.push(signal)
    if (signal === 'SIGKILL') this.emit('close', null, signal)
  }

  end(code: number): void {
    this.emit('close', code, null)
  }
}

let children: FakeChild[]
let said: { msg: string; pause_ms?: number }[]
let log: Log
let slot: WorkerSlot

const startWorker = (): ChildProcess => {
  const child = new FakeChild()
  children.push(child)
  return child as unknown as ChildProcess
}

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] })
  children = []
  said = []
  const note = (members: object | string, msg?: string) =>
    void said.push(typeof members === 'string' ? { msg: members } : { ...members, msg: msg ?? '' })
  log = { info: note, error: note, child: () => log } as unknown as Log
  slot = new WorkerSlot(1, log)
  const started = slot.start(startWorker)
  present().say({ kind: 'serving' })
  await started
})
afterEach(() => {
  vi.useRealTimers()
})

const present = (): FakeChild => children[children.length - 1]
const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms)
const LONGEST_PAUSE_MS = 5000
const LOOKS_MS = 20_000

describe('the pause before a replacement', () => {
  const dieYoung = async () => {
    present().end(1)
    await advance(LONGEST_PAUSE_MS)
    present().say({ kind: 'serving' })
  }
  const pauses = () => said.map((line) => line.pause_ms).filter((pause) => pause !== undefined)

  test('grows up to a maximum while they end early', async () => {
    for (let count = 0; count < 8; count++) await dieYoung()
    expect(pauses()).toEqual([100, 200, 400, 800, 1600, 3200, 5000, 5000])
    expect(slot.restarts).toBe(8)
  })

  test('is short again after one that ran for a while', async () => {
    for (let count = 0; count < 3; count++) await dieYoung()
    await advance(30_000)
    await dieYoung()
    expect(pauses()).toEqual([100, 200, 400, 100])
  })

  test('is waited for', async () => {
    present().end(1)
    await advance(99)
    expect(children).toHaveLength(1)
    await advance(1)
    expect(children).toHaveLength(2)
  })

  test('is followed by no worker process where the service stops', async () => {
    present().end(1)
    expect(await slot.stop(1000)).toBe(null)
    await advance(LOOKS_MS)
    expect(children).toHaveLength(1)
  })
})

describe('a worker process that cannot start again', () => {
  test('is replaced like any other', async () => {
    present().end(1)
    await advance(100)
    present().say({ kind: 'refused', why: 'the port is taken' })
    present().end(1)
    await advance(200)
    expect(children).toHaveLength(3)
    expect(said).toContainEqual(expect.objectContaining({ why: 'the port is taken' }))
  })
})

describe('a worker process that does not answer', () => {
  test('is killed after several health checks, and replaced', async () => {
    const mute = present()
    mute.mute = true
    await advance(LOOKS_MS)
    expect(mute.signals).toEqual(['SIGKILL'])
    await advance(LONGEST_PAUSE_MS)
    expect(children).toHaveLength(2)
  })

  test('is not killed where it answers in between', async () => {
    for (let count = 0; count < 4; count++) {
      present().mute = true
      await advance(LOOKS_MS / 2)
      present().mute = false
      present().answer('health')
      await advance(LOOKS_MS / 2)
    }
    expect([children.length, present().signals]).toEqual([1, []])
  })

  test('is asked once, however many callers wait', async () => {
    present().mute = true
    const first = slot.refresh()
    await advance(10_000)
    const later = [slot.refresh(), slot.refresh()]
    expect(present().asked.filter((ask) => ask === 'page')).toHaveLength(1)
    present().answer('page')
    expect(await Promise.all([first, ...later])).toEqual([false, true, true])
    const unanswered = slot.refresh()
    await advance(2000)
    expect(await unanswered).toBe(false)
    expect(present().asked.filter((ask) => ask === 'page')).toHaveLength(2)
  })

  test('keeps no caller waiting once it has ended', async () => {
    present().mute = true
    const asked = [slot.refresh(), slot.health()]
    present().end(1)
    expect(await Promise.all(asked)).toEqual([false, null])
  })

  test('is not checked while it drains', async () => {
    const mute = present()
    mute.mute = true
    const stopped = slot.stop(100_000)
    await advance(2 * LOOKS_MS)
    expect(mute.signals).toEqual(['SIGTERM'])
    mute.end(0)
    expect(await stopped).toBe(null)
  })
})

describe('the counters', () => {
  test('stay when the worker process ends, and its gauges do not', async () => {
    const page = (answered: boolean) => mergePages([slot.counted(answered)])
    expect(await slot.refresh()).toBe(true)
    expect(page(true)).toContain('n_total 5\n')
    expect(page(true)).toContain('g 1\n')
    present().end(1)
    expect(await slot.refresh()).toBe(false)
    expect(page(true)).toContain('n_total 5\n')
    expect(page(true)).not.toContain('g 1\n')
  })
})

describe('the stop', () => {
  test('also ends a worker process that begins to serve during it', async () => {
    const starting = new WorkerSlot(2, log)
    let outcome = 'starting'
    starting.start(startWorker).then(
      () => (outcome = 'started'),
      () => (outcome = 'failed'),
    )
    const stopped = starting.stop(1000)
    present().say({ kind: 'serving' })
    present().end(0)
    expect(await stopped).toBe(null)
    await advance(LONGEST_PAUSE_MS)
    expect([children.length, outcome]).toEqual([2, 'starting'])
  })

  test('kills a worker process that has not ended by its deadline, and reports it', async () => {
    const stopped = slot.stop(1000)
    await advance(999)
    expect(present().signals).toEqual(['SIGTERM'])
    await advance(1)
    expect(present().signals).toEqual(['SIGTERM', 'SIGKILL'])
    expect(await stopped).toBe('worker process 1 was ended by SIGKILL')
  })
})
