// Every reason of a 503 is made to happen, and found in all places: by the built service where that can be brought to
// it, otherwise by a service in this process, of which one store is replaced.

import { execFileSync } from 'node:child_process'
import { openSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { batchIdOf } from '../../src/contract/ids.ts'
import { OVERLOAD_REASONS, type OverloadReason } from '../../src/contract/outcome.ts'
import { partitionOf } from '../../src/contract/partition.ts'
import { systemClock } from '../../src/lib/clock.ts'
import type { Admission } from '../../src/limits/admission.ts'
import { idempotencyKey } from '../../src/limits/shared/take.ts'
import { openLog } from '../../src/observe/log.ts'
import { openJournal } from '../../src/queue/journal/journal.ts'
import { readConfig } from '../../src/settings/config.ts'
import { startSluice } from '../../src/start/service.ts'
import type { Stores } from '../../src/start/stores.ts'
import { type Answer, bodyOfSize, expectRefused, post, single } from '../support/client.ts'
import { type Cluster, startCluster } from '../support/cluster.ts'
import { FailingDisk, makeRecord } from '../support/journal.ts'
import { connectTo, limitNode } from '../support/limits.ts'
import { startNats } from '../support/nats.ts'
import { startProxy } from '../support/proxy.ts'
import { head, openRaw, type RawConnection } from '../support/raw-http.ts'
import { expectCounted, expectNamed, overloadsOf, type Watched } from '../support/reasons.ts'
import { startRedis } from '../support/redis.ts'
import {
  appRecord,
  eventually,
  makeFolder,
  type Service,
  type ServiceOptions,
  startService,
} from '../support/service.ts'
import { STREAM, withStreams } from '../support/stream.ts'
import { anApp } from '../unit/apps/apps.ts'

const APPS = [appRecord('shop')]
const KEYS = ['6a2f41a3-c54c-4c1f-9d6b-0d4f6d2f8a11', '6a2f41a3-c54c-4c1f-9d6b-0d4f6d2f8a12']
const made = new Set<OverloadReason>()

/** The answer is the same whatever the reason; the places are those of the people who run the service. */
async function expectMade(watched: Watched, reason: OverloadReason, answer: Answer, app: string | null): Promise<void> {
  expectRefused(answer, 503, 'service_overloaded')
  expect(answer.whole).not.toContain(reason)
  await expectNamed(watched, reason, app)
  made.add(reason)
}

const firstRefused = (answers: readonly Answer[]): Answer => {
  const refused = answers.find(({ status }) => status === 503)
  if (refused === undefined) throw new Error('no request was answered 503')
  return refused
}

describe('a node of its own', () => {
  let folder: string
  let service: Service | null = null
  let isMounted = false
  beforeEach(async () => {
    folder = await makeFolder()
  })
  /** What the log counted in the end is what the metric had. */
  afterEach(async () => {
    const running = service
    service = null
    try {
      if (running === null) return
      const counts = await overloadsOf(running)
      await running.stop()
      expectCounted(running, counts)
    } finally {
      if (isMounted) execFileSync('umount', ['-l', folder])
      isMounted = false
    }
  })

  async function started(env: Record<string, string>, more: Partial<ServiceOptions> = {}): Promise<Service> {
    return (service = await startService({ dataDir: folder, apps: APPS, env, ...more }))
  }

  test('keys_full: SLUICE_MAX_KEYS are remembered', async () => {
    const node = await started({ SLUICE_MAX_KEYS: '1' })
    const [, refused] = [
      await post(node, single('ak_shop'), { 'Idempotency-Key': KEYS[0] }),
      await post(node, single('ak_shop'), { 'Idempotency-Key': KEYS[1] }),
    ]
    await expectMade(node, 'keys_full', refused, 'shop')
  })

  test('journal_full: SLUICE_JOURNAL_MAX_MB is reached', async () => {
    const node = await started({ SLUICE_JOURNAL_MAX_MB: '1' })
    const answers: Answer[] = []
    for (let sent = 0; sent < 3; sent++) answers.push(await post(node, bodyOfSize('ak_shop', 500_000)))
    await expectMade(node, 'journal_full', firstRefused(answers), 'shop')
  })

  test('journal_full: the disk is full', async (context) => {
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=48m', 'tmpfs', folder], { stdio: 'ignore' })
    } catch {
      context.skip('a small file system cannot be mounted here (it takes root)')
    }
    isMounted = true
    const node = await started({})
    execFileSync('sh', ['-c', `dd if=/dev/zero of=${join(folder, 'filler')} bs=64k 2>/dev/null || true`])
    let answer = await post(node, bodyOfSize('ak_shop', 500_000))
    await eventually('the disk is full', async () => {
      if (answer.status === 202) answer = await post(node, bodyOfSize('ak_shop', 500_000))
      return answer.status === 503
    })
    await expectMade(node, 'journal_full', answer, 'shop')
    expect(Object.keys(await overloadsOf(node))).toEqual(['journal_full'])
  })

  test('journal_error: a write fails for another reason', async () => {
    const node = await started({})
    expect((await post(node, single('ak_shop'))).status).toBe(202)
    // No file of the process may grow: EFBIG.
    execFileSync('prlimit', ['--pid', String(node.pid), '--fsize=1:'])
    const answer = await post(node, single('ak_shop'))
    execFileSync('prlimit', ['--pid', String(node.pid), '--fsize=unlimited:'])
    await expectMade(node, 'journal_error', answer, 'shop')
  })

  test('evicted: a body gives way to others while it arrives', async () => {
    const node = await started({ SLUICE_RING_MB: '4' })
    const connections: RawConnection[] = []
    await eventually('one had to go', async () => {
      const raw = await openRaw(node.port)
      connections.push(raw)
      raw.write(`${head(['Content-Type: application/json', 'Content-Length: 500000'])}${' '.repeat(200_000)}`)
      return connections.some((each) => each.unread().startsWith('HTTP/1.1 503'))
    })
    for (const raw of connections) raw.close()
    await expectNamed(node, 'evicted', null)
    made.add('evicted')
  })

  test('inflate_busy: too many compressed bodies wait', async () => {
    const node = await started({ SLUICE_RING_MB: '4' })
    const bomb = gzipSync(Buffer.alloc(520_000, ' '))
    const answers = await Promise.all(
      Array.from({ length: 200 }, () => post(node, bomb, { 'Content-Encoding': 'gzip' })),
    )
    await expectMade(node, 'inflate_busy', firstRefused(answers), null)
  })

  test('explain_busy: too many bad bodies wait for the explainer', async () => {
    const node = await started({})
    const slow = `{"app_key":"ak_shop","x":[${`${'['.repeat(60)}${']'.repeat(60)},`.repeat(4200)}1]}`
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(node, slow)))
    await expectMade(node, 'explain_busy', firstRefused(answers), null)
  })

  test('fault: a part throws', async () => {
    const body = gzipSync(single('ak_shop'))
    const code = `import zlib from "node:zlib"
      const handle = Object.getPrototypeOf(zlib.createGunzip()._handle)
      const { writeSync } = handle
      handle.writeSync = function (flush, input, ...rest) {
        if (input?.length === ${body.length}) throw new Error("injected")
        return writeSync.call(this, flush, input, ...rest)
      }`
    const node = await started({ NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(code)}` })
    const answer = await post(node, body, { 'Content-Encoding': 'gzip' })
    await expectMade(node, 'fault', answer, null)
    const bug = node
      .output()
      .split('\n')
      .find((line) => line.includes('bug in receive: this request got 503'))
    expect(JSON.parse(bug ?? '{}')).toMatchObject({
      level: 'error',
      stage: 'receive',
      request_id: answer.headers['x-request-id'],
      err: { message: 'injected' },
    })
  })
})

describe('a node over Redis and NATS', () => {
  let cluster: Cluster
  let node: Service
  let nats: Awaited<ReturnType<typeof startNats>>
  beforeAll(async () => {
    const folder = await makeFolder()
    const config = join(folder, 'nats.conf')
    await writeFile(config, 'max_payload: 131072\n')
    nats = await startNats(['--config', config])
    cluster = await startCluster({ nodes: 0, apps: APPS, env: { NATS_URL: nats.url, SLUICE_RING_MB: '4' } })
    node = await cluster.addNode()
  })
  afterAll(() => nats.resume())
  const accepts = async (): Promise<boolean> => (await post(node, single('ak_shop'))).status === 202

  test('too_large_for_nats: a batch is larger than max_payload', async () => {
    await expectMade(node, 'too_large_for_nats', await post(node, bodyOfSize('ak_shop', 200_000)), 'shop')
  })

  test('stream_full: the stream is at its maximum', async () => {
    await accepts()
    await withStreams(nats.url, ({ streams }) => streams.update(STREAM, { max_msgs: 1 }))
    await expectMade(node, 'stream_full', await post(node, single('ak_shop')), 'shop')
    await withStreams(nats.url, ({ streams }) => streams.update(STREAM, { max_msgs: -1 }))
    expect(await accepts()).toBe(true)
  })

  test('stream_refused: another stream has taken the subjects', async () => {
    await withStreams(nats.url, async ({ streams }) => {
      await streams.delete(STREAM)
      await streams.add({ name: 'OTHER', subjects: ['sluice.events.*'] })
    })
    await expectMade(node, 'stream_refused', await post(node, single('ak_shop')), 'shop')
    await withStreams(nats.url, ({ streams }) => streams.delete('OTHER'))
    await eventually('the stream is there again', accepts)
  })

  test('in_doubt, nats_away and ring_full: NATS is frozen', async () => {
    nats.freeze()
    await expectMade(node, 'in_doubt', await post(node, single('ak_shop')), 'shop')
    await expectMade(node, 'nats_away', await post(node, single('ak_shop')), 'shop')
    const answers = await Promise.all(Array.from({ length: 150 }, () => post(node, bodyOfSize('ak_shop', 60_000))))
    await expectMade(node, 'ring_full', firstRefused(answers), null)
    nats.resume()
    await eventually('NATS is back', accepts)
  })

  test('nats_slow: NATS takes less than comes', async () => {
    const path = await startProxy(nats.port)
    onTestFinished(() => path.stop())
    const node = await cluster.addNode({ NATS_URL: `nats://127.0.0.1:${path.port}` })
    // Some 140 records a second, whatever this machine can do; 250 clients wait for theirs at any time.
    path.pace(1000)
    let refused: Answer | null = null
    const over = new AbortController()
    const client = async (): Promise<void> => {
      while (!over.signal.aborted) {
        const answer = await post(node, single('ak_shop'), { 'Idempotency-Key': crypto.randomUUID() })
        if (answer.status === 503) refused = answer
      }
    }
    const clients = Promise.all(Array.from({ length: 250 }, client))
    try {
      await eventually('it is slow', async () => (await overloadsOf(node)).nats_slow !== undefined, 60_000)
    } finally {
      over.abort()
      path.heal()
      await clients
    }
    await expectMade(node, 'nats_slow', refused as unknown as Answer, 'shop')
    const counts = await overloadsOf(node)
    await node.stop()
    expectCounted(node, counts)
  })

  test('apps_unread: NATS has not answered since the start', async () => {
    await nats.kill()
    const fresh = await cluster.startNode()
    await expectMade(fresh, 'apps_unread', await post(fresh, single('ak_shop')), null)
    await nats.restart()
  })

  test('the log counted each of them by its end', async () => {
    const counts = await overloadsOf(node)
    expect(Object.keys(counts).length).toBeGreaterThanOrEqual(6)
    await node.stop()
    expectCounted(node, counts)
  })
})

const stores = vi.hoisted((): { open: (() => Stores) | null } => ({ open: null }))
vi.mock('../../src/start/open-stores.ts', () => ({ openStores: async () => stores.open?.() }))
vi.mock('../../src/decode/pool.ts', async () => {
  const { DirectPool } = await import('../support/direct-pool.ts')
  return { DecodePool: DirectPool }
})

describe('a service of which one store is replaced', () => {
  const app = anApp({ appKey: 'ak_shop', appId: 'shop' })
  let folder: string
  beforeEach(async () => {
    folder = await makeFolder()
  })

  const taken = { kind: 'taken', charge: { events: 1, takenAtMs: Date.now(), minute: 0, cycleMinute: 0 } } as const
  const admitsAll: Admission = {
    admit: () => taken,
    replayOf: () => null,
    end: () => {},
    view: () => ({ limit: 1, remaining: 1, resetUnixSeconds: 60 * Math.ceil(Date.now() / 60_000) }),
    nearLimits: () => null,
    usages: () => 'away' as never,
    days: () => 'away' as never,
  }

  async function serving(parts: Partial<Stores> & Pick<Stores, 'queue'>): Promise<Watched & { port: number }> {
    const logFile = join(folder, 'log')
    stores.open = () => ({
      apps: {
        find: (key) => (key === 'ak_shop' ? app : 'unknown'),
        findById: () => 'unknown',
        findReader: () => 'unknown',
        all: () => [app],
        stop: () => {},
      },
      admission: admitsAll,
      nodes: () => 1,
      alerts: async () => [],
      demoApp: null,
      gauges: { ready: () => true },
      isReady: () => true,
      parts: () => [],
      ...parts,
    })
    const config = readConfig({ PORT: '0', HOST: '127.0.0.1', SLUICE_ADMIN_PORT: '0', SLUICE_DATA_DIR: folder })
    const { log } = openLog({ level: 'info', terminal: false, colour: false, fd: openSync(logFile, 'a') })
    const sluice = await startSluice(config, { log, clock: systemClock })
    onTestFinished(() => sluice.stop())
    const output = (): string => readFileSync(logFile, 'utf8')
    return { port: sluice.publicPort, adminPort: sluice.adminPort ?? 0, dataDir: folder, output }
  }

  const journalWith = (disk: FailingDisk) =>
    openJournal({ directory: join(folder, 'journal'), maxBytes: 1e9, keepHours: null, disk })

  test('journal_stuck: a write does not end, and 262,144 records wait behind it', async () => {
    const disk = new FailingDisk()
    const queue = await journalWith(disk)
    const node = await serving({ queue })
    disk.held = []
    const { held } = disk
    for (let record = 0; record < 262_144; record++) queue.publish(makeRecord(), () => {})
    await expectMade(node, 'journal_stuck', await post(node, single('ak_shop')), 'shop')
    disk.held = null
    for (const release of held) release()
    await queue.stop()
  })

  test('stopping: the queue takes no more', async () => {
    const queue = await journalWith(new FailingDisk())
    const node = await serving({ queue })
    await queue.stop()
    await expectMade(node, 'stopping', await post(node, single('ak_shop')), 'shop')
  })

  test('redis_slow and key_busy: Redis leaves calls without an answer, and another node holds a key', async () => {
    const redis = await startRedis()
    const client = connectTo(redis.url)
    let nowMs = Date.now()
    const { admission, link } = limitNode(client, 'one', () => nowMs)
    const other = limitNode(client, 'two', () => nowMs)
    onTestFinished(async () => {
      await admission.stop()
      await other.admission.stop()
      client.disconnect()
      await redis.stop()
    })
    const queue = await journalWith(new FailingDisk())
    const node = await serving({ admission, queue })
    expect((await post(node, single('ak_shop'))).status).toBe(202)
    link.isHolding = true
    await expectMade(node, 'redis_slow', await post(node, single('ak_shop')), 'shop')
    link.answerLate()

    const batchId = batchIdOf('shop', KEYS[0])
    expect((await other.admission.admit(app, 1, batchId, null)).kind).toBe('taken')
    expect(await client.get(idempotencyKey(partitionOf('shop', 16), batchId))).toBe('two')
    const waiting = post(node, single('ak_shop'), { 'Idempotency-Key': KEYS[0] })
    let answer: Answer | null = null
    void waiting.then((each) => (answer = each))
    await eventually('it gives up', () => {
      nowMs += 1000
      return answer !== null
    })
    // The limits' clock is ahead by now, and so is the minute of the answer.
    expect((await waiting).json['error']).toBe('service_overloaded')
    await expectNamed(node, 'key_busy', 'shop')
    made.add('key_busy')
    await queue.stop()
  })
})

test('every reason was made to happen, but for that of the spool, which has a test of its own', () => {
  expect(OVERLOAD_REASONS.filter((reason) => !made.has(reason))).toEqual(['spool_full'])
})
