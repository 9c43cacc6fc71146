import fc from 'fast-check'
import { expect, it } from 'vitest'
import { countBatches, openReadyQueue, publishTo, readStreamPlainly } from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { type Proxy, startProxy } from '../support/proxy.ts'

const FAULTS = ['cut', 'hold', 'delay', 'freeze', 'kill', 'none'] as const
const ACK_TIMEOUT_MS = 400

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

async function inject(fault: (typeof FAULTS)[number], ms: number, nats: NatsServer, proxy: Proxy): Promise<void> {
  switch (fault) {
    case 'cut':
      proxy.cut()
      break
    case 'hold':
      proxy.hold()
      break
    case 'delay':
      proxy.delay(ms / 10)
      break
    case 'freeze':
      nats.freeze()
      break
    case 'kill':
      await nats.kill()
      break
    case 'none':
      break
  }
  await pause(ms)
  proxy.heal()
  nats.resume()
  if (fault === 'kill') await nats.restart()
}

it('stores what it calls durable exactly once, and never what it refuses, whatever breaks', async () => {
  const nats = await startNats()
  const proxy = await startProxy(nats.port)
  const step = fc.record({ fault: fc.constantFrom(...FAULTS), ms: fc.integer({ min: 20, max: 900 }) })
  const seen = new Set<string>()
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 8 }), async (steps) => {
      // What the runs before have stored need not be read again.
      await nats.restart({ empty: true })
      const { queue } = await openReadyQueue(`nats://127.0.0.1:${proxy.port}`, { ackTimeoutMs: ACK_TIMEOUT_MS })
      const outcomes: Promise<readonly [string, string]>[] = []
      const over = new AbortController()
      const load = (async () => {
        for (let turn = 0; !over.signal.aborted; turn += 1) {
          for (let index = 0; index < 12; index += 1) {
            const wish = {
              keyed: index % 2 === 0,
              appId: `app-${index % 5}`,
              fillBytes: turn % 40 === 0 ? 30_000 : 500,
            }
            const record = makeRecord(wish)
            outcomes.push(publishTo(queue, record).then(({ ack }) => [record.batchId, ack]))
          }
          await pause(3)
        }
      })()
      for (const { fault, ms } of steps) await inject(fault, ms, nats, proxy)
      over.abort()
      await load
      const acks = await Promise.all(outcomes)
      await queue.stop()
      const counts = countBatches(await readStreamPlainly(nats.url))
      for (const [batchId, ack] of acks) {
        seen.add(ack)
        const count = counts.get(batchId) ?? 0
        if (ack === 'durable') expect(count).toBe(1)
        else if (ack === 'in_doubt') expect(count).toBeLessThanOrEqual(1)
        else expect(count).toBe(0)
      }
    }),
    { numRuns: Number(process.env.SLUICE_TEST_FAULT_RUNS ?? 4), endOnFailure: true },
  )
  expect([...seen].toSorted()).toEqual(expect.arrayContaining(['durable', 'in_doubt', 'nats_away']))
  await proxy.stop()
  await nats.stop()
})
