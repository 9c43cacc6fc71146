// The order of a start and of a stop: each part is replaced by one that records when it starts and stops.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest'
import type { Log } from '../../../src/observe/log.ts'
import { readConfig } from '../../../src/settings/config.ts'
import { type Sluice, startSluice } from '../../../src/start/service.ts'

const parts = vi.hoisted(() => {
  const calls: string[] = []
  const failing = { start: '', stop: '' }
  const stop = (name: string) => () => {
    calls.push(`stop ${name}`)
    if (failing.stop === name) throw new Error(`${name} does not stop`)
  }
  const start = (name: string) => {
    if (failing.start === name) throw new Error(`${name} does not start`)
    calls.push(`start ${name}`)
  }
  /** A function that starts a part. */
  const opener =
    (name: string, members: object = {}) =>
    () => {
      start(name)
      return { ...members, stop: stop(name) }
    }
  return { calls, failing, start, stop, opener }
})

vi.mock('../../../src/http/admin.ts', () => ({ startAdmin: parts.opener('admin', { port: 2 }) }))
vi.mock('../../../src/http/server.ts', () => ({
  startServer: () => {
    parts.start('server')
    return { port: 1, connections: 0, stopListening: () => {}, close: parts.stop('server') }
  },
}))
vi.mock('../../../src/http/port.ts', () => ({
  EVERY_ADDRESS: '::',
  hasIpv6: () => Promise.resolve(true),
  findPort: () => parts.start('port'),
}))
vi.mock('../../../src/decode/pool.ts', () => ({
  DecodePool: class {
    start = (): void => parts.start('threads')
    stop = parts.stop('pool')
    constructor() {
      parts.start('pool')
    }
  },
}))
vi.mock('../../../src/lib/folder.ts', () => ({ makeFolder: async () => {} }))
vi.mock('../../../src/lib/lock.ts', () => ({
  acquireLock: () => {
    parts.start('lock')
    return { release: parts.stop('lock') }
  },
}))
vi.mock('../../../src/lib/admin-address.ts', () => ({ writeAdminAddress: () => () => {} }))
vi.mock('../../../src/start/opened-apps.ts', () => ({
  openFileApps: parts.opener('apps', { all: () => [] }),
  findDemoApp: () => undefined,
}))
vi.mock('../../../src/start/shared-apps.ts', () => ({
  openSharedApps: () => ({ store: parts.opener('apps')(), bucket: null }),
}))
vi.mock('../../../src/limits/own/recovered.ts', () => ({
  recoverLimiter: () => {
    parts.start('recovery')
    return { limiter: {}, recovery: { snapshotProblem: null } }
  },
}))
vi.mock('../../../src/queue/journal/journal.ts', () => ({ openJournal: parts.opener('journal') }))
vi.mock('../../../src/queue/journal/journal-keep.ts', () => ({
  isOfEarlierVersion: () => false,
  markJournal: () => {},
}))
vi.mock('../../../src/start/snapshots.ts', () => ({ keepSnapshots: parts.opener('snapshots') }))
vi.mock('../../../src/redis/connection.ts', () => ({ openRedis: parts.opener('redis'), untilUp: () => {} }))
vi.mock('../../../src/limits/shared/shared-admission.ts', () => ({
  SharedAdmission: class {
    stop = parts.stop('admission')
    constructor() {
      parts.start('admission')
    }
  },
}))
vi.mock('../../../src/audit/start-audit.ts', () => ({ startAudit: parts.opener('audit') }))
vi.mock('../../../src/queue/stream/publisher.ts', () => ({ openPublisher: parts.opener('stream') }))
// The observers of Node's own metrics cannot be stopped.
vi.mock('../../../src/observe/runtime.ts', async () => {
  const { Registry } = await import('prom-client')
  return { collectRuntimeMetrics: () => new Registry() }
})

/** In the order of their start. */
const STEPS = {
  embedded: ['admin', 'port', 'lock', 'apps', 'recovery', 'journal', 'snapshots', 'pool', 'threads', 'server'],
  shared: ['admin', 'redis', 'apps', 'admission', 'audit', 'stream', 'pool', 'threads', 'server'],
} as const
const ENVIRONMENTS = {
  embedded: {},
  shared: { REDIS_URL: 'redis://unused', NATS_URL: 'nats://unused' },
}

/** Steps that have no stop: the port is only tested, the recovery only reads, and the pool stops the threads that it has started. */
const WITHOUT_STOP = new Set(['port', 'recovery', 'threads'])

/** The stops of what was started, in reverse; the journal is flushed before the last snapshot. */
function stopsOf(started: readonly string[]): string[] {
  const reversed = started.filter((step) => !WITHOUT_STOP.has(step)).toReversed()
  const at = reversed.indexOf('snapshots')
  if (at !== -1) reversed.splice(at, 2, 'journal', 'snapshots')
  return reversed.map((step) => `stop ${step}`)
}

const errors: string[] = []
const folder = mkdtempSync(join(tmpdir(), 'sluice-start-'))

function start(mode: keyof typeof STEPS): Promise<Sluice> {
  const env = { ...ENVIRONMENTS[mode], SLUICE_DATA_DIR: folder, SLUICE_SHUTDOWN_SECONDS: '1' }
  const log = { info: () => {}, warn: () => {}, error: (_: unknown, message: string) => void errors.push(message) }
  return startSluice(readConfig(env), { log: log as unknown as Log, clock: () => 0 })
}

afterAll(() => rmSync(folder, { recursive: true }))

afterEach(() => {
  parts.calls.length = 0
  errors.length = 0
  Object.assign(parts.failing, { start: '', stop: '' })
})

describe.each(['embedded', 'shared'] as const)('%s: a start', (mode) => {
  const steps = STEPS[mode]

  test('starts the parts in order, and its stop stops them in reverse order', async () => {
    const sluice = await start(mode)
    expect(parts.calls).toEqual(steps.map((step) => `start ${step}`))
    parts.calls.length = 0
    await sluice.stop()
    expect(parts.calls).toEqual(stopsOf(steps))
  })

  test.each(steps.map((step, at) => ({ step, before: steps.slice(0, at) })))(
    'that fails at $step stops all that was started, in reverse order',
    async ({ step, before }) => {
      parts.failing.start = step
      await expect(start(mode)).rejects.toThrow(`${step} does not start`)
      expect(parts.calls).toEqual([...before.map((each) => `start ${each}`), ...stopsOf(before)])
    },
  )

  test('that fails reports its own reason, and stops the others, where a part does not stop either', async () => {
    Object.assign(parts.failing, { start: 'server', stop: 'pool' })
    await expect(start(mode)).rejects.toThrow('server does not start')
    expect(parts.calls.at(-1)).toBe('stop admin')
    expect(errors).toEqual(['a part did not stop after a failed start'])
  })

  test.each(steps.filter((step) => !WITHOUT_STOP.has(step)))(
    'can be stopped where %s does not stop: the others stop, and the error is thrown',
    async (step) => {
      const sluice = await start(mode)
      parts.calls.length = 0
      parts.failing.stop = step
      await expect(sluice.stop()).rejects.toThrow(`${step} does not stop`)
      expect(parts.calls).toEqual(stopsOf(steps))
    },
  )
})
