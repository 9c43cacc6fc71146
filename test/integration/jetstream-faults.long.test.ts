import { execFileSync } from 'node:child_process'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  countBatches,
  freeze,
  type OpenQueue,
  openQueue,
  openReadyQueue,
  publishTo,
  readStreamPlainly,
  settlementsOf,
  streamConfig,
  untilSent,
} from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { NATS_SERVER, type NatsServer, startNats } from '../support/nats.ts'
import { freePort, startProgram } from '../support/programs.ts'
import { startProxy } from '../support/proxy.ts'
import { eventually } from '../support/service.ts'

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** Publishes one record after another until one is durable; how many it took, each of which has 2 s. */
async function untilDurable({ queue }: OpenQueue, appId = 'demo'): Promise<number> {
  for (let records = 1; ; records++) {
    const { ack } = await publishTo(queue, makeRecord({ keyed: true, appId }))
    if (ack === 'durable') return records
    if (records === 10) throw new Error(`none of ${records} records is durable: ${queue.status.state}`)
  }
}

/** Of records after an outage; a busy machine may be late for the first. */
const MOST_TO_COME_BACK = 2
/** Less than the 2 s of a record. */
const SHORT_OUTAGE_MS = 800
const STORED_TIMEOUT_MS = 10_000

const ACK_TIMEOUT_MS = 200

/** Asked by a process of its own, while this one's event loop stands still. */
function storedMessages(monitorPort: number): number {
  const answer = execFileSync('curl', ['--silent', `http://127.0.0.1:${monitorPort}/jsz`], { encoding: 'utf8' })
  return (JSON.parse(answer) as { messages: number }).messages
}

const many = (count: number, keyed = true) =>
  Array.from({ length: count }, (_, index) => makeRecord({ keyed, appId: `app-${index % 9}` }))

describe('the JetStream queue in an outage', () => {
  let nats: NatsServer
  beforeAll(async () => {
    nats = await startNats()
  })
  afterEach(async () => {
    nats.resume()
    await nats.restart()
  })

  it('answers after 2 s while NATS is frozen: in doubt for sent records, away for others', async () => {
    const opened = await openReadyQueue(nats.url)
    const { queue, notices } = opened
    await freeze(nats)
    const first = await Promise.all(many(100).map((record) => publishTo(queue, record)))
    expect(first.slice(0, 64).map(({ ack }) => ack)).toEqual(first.slice(0, 64).map(() => 'in_doubt'))
    expect(first.slice(64).map(({ ack }) => ack)).toEqual(first.slice(64).map(() => 'nats_away'))
    for (const { afterMs } of first) expect(afterMs).toBeGreaterThanOrEqual(1990)
    expect(queue.isUp).toBe(false)
    expect(queue.status.state).toBe('silent')
    const silent = many(10)
    expect(new Set(await settlementsOf(silent.map((record) => publishTo(queue, record))))).toEqual(
      new Set(['nats_away']),
    )
    await eventually('the frozen server is given up', () => queue.status.reason === 'no answer', 20_000)
    nats.resume()
    expect(await untilDurable(opened)).toBeLessThanOrEqual(MOST_TO_COME_BACK)
    await eventually('the queue is up', () => queue.isUp)
    const counts = countBatches(await readStreamPlainly(nats.url))
    for (const { batchId } of silent) expect(counts.get(batchId)).toBe(undefined)
    expect(
      notices.filter((notice) => notice === 'NATS does not acknowledge: answering 503 until it does'),
    ).toHaveLength(1)
    expect(notices.filter((notice) => notice === 'NATS away: no answer: answering 503 until it is back')).toHaveLength(
      1,
    )
    expect(notices.at(-1)).toBe('NATS: connected')
    await queue.stop()
  })

  it('sends waiting records after NATS was frozen for less than their timeout', async () => {
    const { queue } = await openReadyQueue(nats.url)
    await freeze(nats)
    const outcomes = many(200).map((record) => publishTo(queue, record))
    await pause(SHORT_OUTAGE_MS)
    nats.resume()
    expect(new Set(await settlementsOf(outcomes))).toEqual(new Set(['durable']))
    await queue.stop()
  })

  it('ends a silence by an acknowledgement, which it needs no other record for', async () => {
    const { queue, notices } = await openReadyQueue(nats.url, { ackTimeoutMs: 300 })
    await freeze(nats)
    const record = makeRecord({ keyed: true })
    expect(await publishTo(queue, record)).toMatchObject({ ack: 'in_doubt' })
    expect(queue.isUp).toBe(false)
    nats.resume()
    await eventually(
      'a late acknowledgement came, or one that was asked for',
      () => notices.at(-1) === 'NATS: connected',
    )
    expect(queue.isUp).toBe(true)
    expect(await publishTo(queue, record)).toMatchObject({ ack: 'duplicate', storedEvents: 1 })
    await queue.stop()
  })

  it('answers 2 s after NATS was killed, and is back within 2 s of its return', async () => {
    const opened = await openReadyQueue(nats.url)
    const { queue, notices } = opened
    await nats.kill()
    await eventually('the queue is down', () => !queue.isUp)
    const records = [...many(50), ...many(50, false)]
    const outcomes = await Promise.all(records.map((record) => publishTo(queue, record)))
    for (const { ack, afterMs } of outcomes) {
      expect(ack).toBe('nats_away')
      expect(afterMs).toBeGreaterThanOrEqual(1990)
    }
    expect(queue.status).toEqual({ state: 'away', reason: 'connection refused' })
    await nats.restart()
    expect(await untilDurable(opened)).toBeLessThanOrEqual(MOST_TO_COME_BACK)
    const counts = countBatches(await readStreamPlainly(nats.url))
    for (const { batchId } of records) expect(counts.get(batchId)).toBe(undefined)
    expect(notices.length).toBeLessThan(6)
    await queue.stop()
  })

  it('sends the records that waited during a short outage', async () => {
    const { queue } = await openReadyQueue(nats.url)
    await nats.kill()
    await eventually('the queue is down', () => !queue.isUp)
    const records = [...many(50), ...many(50, false)]
    const outcomes = records.map((record) => publishTo(queue, record))
    await nats.restart()
    expect(new Set(await settlementsOf(outcomes))).toEqual(new Set(['durable']))
    const counts = countBatches(await readStreamPlainly(nats.url))
    for (const { batchId } of records) expect(counts.get(batchId)).toBe(1)
    await queue.stop()
  })

  it('creates the stream again where NATS comes back without it', async () => {
    const opened = await openReadyQueue(nats.url)
    const before = await streamConfig(nats.url)
    for (let stored = 0; stored < 5; stored++) await untilDurable(opened)
    await nats.kill()
    await nats.restart({ empty: true })
    expect(await untilDurable(opened)).toBeLessThanOrEqual(MOST_TO_COME_BACK)
    expect(await streamConfig(nats.url)).toEqual(before)
    await opened.queue.stop()
  })

  it('settles records as in doubt only if they were in flight when the connection broke', async () => {
    const proxy = await startProxy(nats.port)
    const { queue } = await openReadyQueue(`nats://127.0.0.1:${proxy.port}`)
    proxy.hold()
    const records = many(150)
    const outcomes = records.map((record) => publishTo(queue, record))
    await untilSent()
    proxy.cut()
    const settlements = await settlementsOf(outcomes)
    expect(settlements.slice(0, 64)).toEqual(Array.from({ length: 64 }, () => 'in_doubt'))
    expect(settlements.slice(64)).toEqual(Array.from({ length: 86 }, () => 'nats_away'))
    await proxy.stop()
    await queue.stop()
    const counts = countBatches(await readStreamPlainly(nats.url))
    for (const { batchId } of records.slice(64)) expect(counts.get(batchId)).toBe(undefined)
  })

  it('lets no record wait for those that were in flight on a broken connection', async () => {
    const proxy = await startProxy(nats.port)
    const { queue } = await openReadyQueue(`nats://127.0.0.1:${proxy.port}`)
    proxy.hold()
    const outcomes = many(100).map((record) => publishTo(queue, record))
    await untilSent()
    proxy.cut()
    await eventually('the queue is down', () => !queue.isUp)
    proxy.heal()
    const settlements = await settlementsOf(outcomes)
    expect(settlements.slice(0, 64)).toEqual(Array.from({ length: 64 }, () => 'in_doubt'))
    expect(settlements.slice(64)).toEqual(Array.from({ length: 36 }, () => 'durable'))
    await queue.stop()
    await proxy.stop()
  })

  it('works over a slow connection', async () => {
    const proxy = await startProxy(nats.port)
    proxy.delay(300)
    const { queue } = await openReadyQueue(`nats://127.0.0.1:${proxy.port}`)
    expect(new Set(await settlementsOf(many(120).map((record) => publishTo(queue, record))))).toEqual(
      new Set(['durable']),
    )
    proxy.heal()
    await queue.stop()
    await proxy.stop()
  })

  it('does not treat its own stalled event loop as an outage', async () => {
    const monitorPort = await freePort()
    const watched = await startNats(['--http_port', String(monitorPort)])
    const proxy = await startProxy(watched.port)
    const { queue } = await openReadyQueue(`nats://127.0.0.1:${proxy.port}`, { ackTimeoutMs: ACK_TIMEOUT_MS })
    // No acknowledgement comes before the stall.
    proxy.delay(50)
    const outcomes = many(30).map((record) => publishTo(queue, record))
    await untilSent()
    const sentAtMs = performance.now()
    // Until NATS has acknowledged all, however busy the machine is, and well beyond the time of every record.
    const isStored = (): boolean => storedMessages(monitorPort) === outcomes.length
    while (!isStored()) if (performance.now() > sentAtMs + STORED_TIMEOUT_MS) throw new Error('they are not stored')
    const storedAtMs = performance.now()
    while (performance.now() < storedAtMs + 3 * ACK_TIMEOUT_MS);
    expect(new Set(await settlementsOf(outcomes))).toEqual(new Set(['durable']))
    await queue.stop()
    await proxy.stop()
    await watched.stop()
  })
})

describe('the JetStream queue at its start', () => {
  it('waits while NATS is away, and reports it once', async () => {
    const port = await freePort()
    const { queue, notices } = openQueue(`nats://127.0.0.1:${port}`, { ackTimeoutMs: 400 })
    expect(queue.isUp).toBe(false)
    expect(await publishTo(queue, makeRecord())).toMatchObject({ ack: 'nats_away' })
    expect(queue.status).toEqual({ state: 'away', reason: 'connection refused' })
    expect(queue.hasBeenUp).toBe(false)
    expect(notices).toEqual(['NATS away: connection refused: answering 503 until it is back'])
    await queue.stop()
  })

  it('stops while it waits', async () => {
    const { queue } = openQueue(`nats://127.0.0.1:${await freePort()}`)
    const outcome = publishTo(queue, makeRecord())
    await queue.stop()
    expect(await outcome).toMatchObject({ ack: 'nats_away' })
  })

  it('finds the only one of several servers that runs', async () => {
    const nats = await startNats()
    const urls = [await freePort(), nats.port, await freePort()].map((port) => `127.0.0.1:${port}`)
    const { queue } = await openReadyQueue(`nats://${urls.join(',')}`)
    expect(await publishTo(queue, makeRecord())).toMatchObject({ ack: 'durable' })
    await queue.stop()
    await nats.stop()
  })

  it('uses the user and password of the URL, and never shows them where they are wrong', async () => {
    const nats = await startNats(['--user', 'sluice', '--pass', 'p@ss/word'])
    const good = await openReadyQueue(`nats://sluice:p%40ss%2Fword@127.0.0.1:${nats.port}`)
    expect(await publishTo(good.queue, makeRecord())).toMatchObject({ ack: 'durable' })
    await good.queue.stop()
    const bad = openQueue(`nats://sluice:s3cret@127.0.0.1:${nats.port}`, { ackTimeoutMs: 600 })
    expect(await publishTo(bad.queue, makeRecord())).toMatchObject({ ack: 'nats_away' })
    expect(bad.queue.status).toEqual({ state: 'away', reason: expect.stringMatching(/authorization/i) })
    expect(bad.notices).toHaveLength(1)
    expect(bad.notices.join()).not.toContain('s3cret')
    await bad.queue.stop()
    await nats.stop()
  })

  it('reports a server without JetStream', async () => {
    const plain = await startProgram({
      name: 'nats-plain',
      command: ({ port }) => [NATS_SERVER, '--addr', '127.0.0.1', '--port', String(port)],
    })
    const { queue, notices } = openQueue(`nats://127.0.0.1:${plain.port}`, { ackTimeoutMs: 400 })
    expect(await publishTo(queue, makeRecord())).toMatchObject({ ack: 'nats_away' })
    expect(queue.status).toEqual({ state: 'no_stream', reason: 'JetStream is not enabled' })
    expect(queue.isUp).toBe(false)
    expect(notices).toContain('no stream in NATS: JetStream is not enabled: answering 503 until there is one')
    expect(notices.length).toBeLessThan(3)
    await queue.stop()
    await plain.stop()
  })
})
