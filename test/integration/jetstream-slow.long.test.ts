// A NATS server that is slower than the publishers: it is stopped for most of every 100 ms.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { countBatches, type Outcome, openReadyQueue, publishTo, readStreamPlainly } from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { eventually } from '../support/service.ts'

const STOPPED_SECONDS = 0.0985
const AWAKE_SECONDS = 0.0015
const SLOW_FOR_MS = 6000
/** More than it stores, even if each record waited for two seconds. */
const CLIENTS = 4000
/** The pause after a refusal. */
const RETRY_MS = 500
const ACK_TIMEOUT_MS = 2000

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

let nats: NatsServer
beforeEach(async () => {
  nats = await startNats()
})
afterEach(() => nats.stop())

/** In a separate process, since this one is too busy to be on time. */
function slowDown(pid: number): ChildProcess {
  const stop = `kill -STOP ${pid}; sleep ${STOPPED_SECONDS}`
  return spawn('sh', ['-c', `while ${stop} && kill -CONT ${pid}; do sleep ${AWAKE_SECONDS}; done`], { stdio: 'ignore' })
}

it('acknowledges nearly all that a slow server stores, and refuses the rest at once', async () => {
  const { queue } = await openReadyQueue(nats.url, { ackTimeoutMs: ACK_TIMEOUT_MS })
  const outcomes = new Map<string, Outcome>()
  const untilMs = performance.now() + SLOW_FOR_MS
  const client = async (_: unknown, at: number): Promise<void> => {
    while (performance.now() < untilMs) {
      const record = makeRecord({ keyed: true, appId: `app-${at % 9}` })
      const outcome = await publishTo(queue, record)
      outcomes.set(record.batchId, outcome)
      if (outcome.ack !== 'durable') await pause(RETRY_MS)
    }
  }
  const slow = slowDown(nats.pid)
  const clients = Promise.all(Array.from({ length: CLIENTS }, client))
  await eventually('the queue says so', () => queue.status.state === 'slow')
  await clients
  slow.kill()
  await once(slow, 'exit')
  nats.resume()
  await queue.stop()

  const all = [...outcomes.values()]
  const refused = all.filter(({ ack }) => ack === 'nats_slow')
  const durable = all.filter(({ ack }) => ack === 'durable').length
  const stored = countBatches(await readStreamPlainly(nats.url))
  expect(refused.length).toBeGreaterThan(CLIENTS)
  expect(durable / stored.size).toBeGreaterThanOrEqual(0.9)
  expect(all.filter(({ ack }) => ack === 'in_doubt').length / stored.size).toBeLessThan(0.02)
  // A record whose own time runs out is refused with at most half of it left, so these were refused by the pace.
  expect(refused.filter(({ afterMs }) => afterMs < ACK_TIMEOUT_MS / 2).length / refused.length).toBeGreaterThan(0.9)
})
