// A supervisor of real processes that run a small program in slot of a worker process.

import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test } from 'vitest'
import { StartError } from '../../../src/lib/errors.ts'
import type { Log } from '../../../src/observe/log.ts'
import { Supervisor } from '../../../src/supervisor/supervisor.ts'
import { eventually } from '../../support/service.ts'

const STAND_IN = fileURLToPath(new URL('../../support/worker.mjs', import.meta.url))
const NOBODY = () => {}

interface Behaviour {
  readonly how?: string
  readonly requests?: number
}

interface Started {
  readonly supervisor: Supervisor
  /** The processes that were started in each slot, by its number. */
  readonly children: Record<number, ChildProcess[]>
}

const all: Started[] = []
afterEach(async () => {
  for (const { supervisor, children } of all.splice(0)) {
    for (const child of Object.values(children).flat()) child.kill('SIGKILL')
    await supervisor.stop().catch(NOBODY)
  }
})

/** `behaviours` by slot; a slot that is not named serves. */
function supervise(processes: number, behaviours: Record<number, Behaviour>, killAfterMs = 10_000) {
  const log = { info: NOBODY, warn: NOBODY, error: NOBODY, child: () => log } as unknown as Log
  const supervisor = new Supervisor({ linesDropped: () => 2, log, processes, killAfterMs })
  const children: Started['children'] = {}
  const startWorker = (slot: number): ChildProcess => {
    const { how = 'serves', requests = 0 } = behaviours[slot] ?? {}
    const child = fork(STAND_IN, [String(slot), how, String(requests)], {
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
    children[slot] = [...(children[slot] ?? []), child]
    return child
  }
  const started = { supervisor, children }
  all.push(started)
  return { ...started, start: () => supervisor.start(startWorker) }
}

/** The value of a sample on the page. */
async function sample(supervisor: Supervisor, name: string): Promise<number | null> {
  const line = (await supervisor.scrape()).split('\n').find((candidate) => candidate.startsWith(`${name} `))
  return line === undefined ? null : Number(line.split(' ')[1])
}

const isGone = (child: ChildProcess | undefined): boolean => child?.exitCode !== null || child.signalCode !== null

const serving = (supervisor: Supervisor, count: number): Promise<void> =>
  eventually(`${count} worker processes serve`, async () => (await sample(supervisor, 'sluice_workers')) === count)

describe('the start', () => {
  test('ends when all worker processes serve, and then the service is ready', async () => {
    const { supervisor, start } = supervise(3, {})
    expect(await supervisor.health.ready()).toBe(false)
    await start()
    expect(await supervisor.health.ready()).toBe(true)
    expect(await sample(supervisor, 'sluice_workers')).toBe(3)
  })

  test('fails with the reason of a worker process that cannot start', async () => {
    const { supervisor, start } = supervise(2, { 2: { how: 'refuses' } })
    const failed = await start().catch((error: unknown) => error)
    expect(failed).toBeInstanceOf(StartError)
    expect((failed as Error).message).toBe('cannot listen on 10.0.0.1:80')
    expect(await supervisor.health.ready()).toBe(false)
  })

  test('fails where a worker process ends before it serves', async () => {
    const { start, children } = supervise(2, { 1: { how: 'crashes' } })
    await expect(start()).rejects.toThrow(new StartError('worker process 1 ended with code 7 before it served'))
    expect(children[1]).toHaveLength(1)
  })
})

describe('a worker process that is killed', () => {
  test('is replaced, and the others are not touched', async () => {
    const { supervisor, children, start } = supervise(2, {})
    await start()
    children[1]?.[0]?.kill('SIGKILL')
    await eventually('another is started', () => children[1]?.length === 2)
    await serving(supervisor, 2)
    expect(await sample(supervisor, 'sluice_worker_restarts_total')).toBe(1)
    expect(children[2]).toHaveLength(1)
    expect(isGone(children[2]?.[0])).toBe(false)
  })

  test('leaves the service ready, and no counter goes back', async () => {
    const { supervisor, children, start } = supervise(2, { 1: { requests: 5 }, 2: { requests: 70 } })
    await start()
    expect(await sample(supervisor, 'requests_total')).toBe(75)
    children[2]?.[0]?.kill('SIGKILL')
    const seen: (number | null)[] = []
    await eventually('another is started', async () => {
      seen.push(await sample(supervisor, 'requests_total'))
      expect(await supervisor.health.ready()).toBe(true)
      return children[2]?.length === 2
    })
    await serving(supervisor, 2)
    seen.push(await sample(supervisor, 'requests_total'))
    // The replacement reports 70 too.
    expect(seen.at(-1)).toBe(145)
    expect(seen).toEqual(seen.toSorted((left, right) => Number(left) - Number(right)))
    expect(seen[0]).toBe(75)
  })
})

describe('a worker process that is frozen', () => {
  test('blocks neither the page nor the probes', async () => {
    const { supervisor, children, start } = supervise(2, { 1: { requests: 5 }, 2: { requests: 70 } })
    await start()
    await supervisor.scrape()
    children[2]?.[0]?.kill('SIGSTOP')
    expect(await supervisor.health.ready()).toBe(true)
    expect(await supervisor.health.parts()).toEqual([
      { part: 'queue', kind: 'jetstream', state: 'ok', reason: null, worker: 1 },
      { part: 'service', kind: 'process', state: 'silent', reason: null, worker: 2 },
    ])
    const page = await supervisor.scrape()
    expect(page).toContain('\nrequests_total 75\n')
    expect(page).toContain('\nring_bytes 1\n')
    children[2]?.[0]?.kill('SIGCONT')
    await eventually('it answers again', async () => (await sample(supervisor, 'ring_bytes')) === 2)
  })

  test('makes the service unready where no other is ready', async () => {
    const { supervisor, children, start } = supervise(2, {})
    await start()
    for (const slot of [1, 2]) children[slot]?.[0]?.kill('SIGSTOP')
    expect(await supervisor.health.ready()).toBe(false)
  })

  test('is killed when it has not drained in time, which is reported', async () => {
    const { supervisor, children, start } = supervise(2, {}, 500)
    await start()
    children[2]?.[0]?.kill('SIGSTOP')
    await expect(supervisor.stop()).rejects.toThrow('worker process 2 was ended by SIGKILL')
    expect(children[1]?.[0]?.exitCode).toBe(0)
  })
})

describe('the stop', () => {
  test('lets all drain, with their last counters on the page', async () => {
    const { supervisor, children, start } = supervise(2, { 1: { requests: 5 }, 2: { requests: 70 } })
    await start()
    await supervisor.stop()
    expect([1, 2].map((slot) => children[slot]?.map((child) => child.exitCode))).toEqual([[0], [0]])
    expect(await sample(supervisor, 'requests_total')).toBe(75)
  })

  test('reports a worker process that failed', async () => {
    const { supervisor, start } = supervise(2, { 1: { how: 'drains badly' } })
    await start()
    await expect(supervisor.stop()).rejects.toThrow('worker process 1 ended with code 3')
  })

  test('before all serve counts neither as a failed start nor as a failed stop', async () => {
    const { supervisor, children, start } = supervise(2, { 2: { how: 'hangs' } })
    let outcome = 'starting'
    start().then(
      () => (outcome = 'started'),
      () => (outcome = 'failed'),
    )
    await eventually('both run', () => children[2]?.[0]?.pid !== undefined)
    await supervisor.stop()
    expect([isGone(children[1]?.[0]), isGone(children[2]?.[0]), outcome]).toEqual([true, true, 'starting'])
  })

  test('makes the service unready at once, and kills no worker process before its deadline, except on kill()', async () => {
    const { supervisor, children, start } = supervise(2, { 1: { how: 'never drains' } })
    await start()
    const stopped = supervisor.stop().catch((error: Error) => error.message)
    expect(await supervisor.health.ready()).toBe(false)
    expect(isGone(children[1]?.[0])).toBe(false)
    supervisor.kill()
    expect(await stopped).toContain('worker process 1 was ended by SIGKILL')
    expect([isGone(children[1]?.[0]), isGone(children[2]?.[0])]).toEqual([true, true])
  })
})
