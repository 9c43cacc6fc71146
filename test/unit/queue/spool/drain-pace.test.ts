// How much of a spool is under way beside live traffic: live requests come first, and the spool has a tenth of all at the least.

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { NatsConnection } from '@nats-io/transport-node'
import { expect, onTestFinished, test } from 'vitest'
import { spoolLine } from '../../../../src/contract/record/spool-line.ts'
import { RealDisk } from '../../../../src/queue/journal/disk.ts'
import { openSpool } from '../../../../src/queue/spool/open-spool.ts'
import type { StreamPublisher } from '../../../../src/queue/stream/publisher.ts'
import { makeRecord } from '../../../support/journal.ts'
import { makeFolder } from '../../../support/service.ts'
import { spoolOptions } from '../../../support/spool.ts'
import { ManualTimers } from '../../../support/timers.ts'

const BATCHES = 400

type OnAck = (ack: string, events?: number, sequence?: number) => void

/** A spool over a stream that acknowledges what and when the test says. `live`: requests that wait for it beside. */
async function drain(beside: { live: number }) {
  const directory = await makeFolder()
  const records = Array.from({ length: BATCHES }, () => makeRecord())
  const lines = records.map(({ line, charge }) => spoolLine(line, charge, { state: 'plain', messageId: null }))
  await mkdir(join(directory, 'journal'), { recursive: true })
  await writeFile(join(directory, 'journal', '000000000001.ndjson'), Buffer.concat(lines))
  const start = { segment: 1, offset: 0 }
  const cursor = { version: 1, id: 'abcdef012345', released: start, sent: start, reserved: start, witness: null }
  await writeFile(join(directory, 'cursor.json'), JSON.stringify(cursor))
  const timers = new ManualTimers()
  const underWay: OnAck[] = []
  const sent: string[] = []
  const stream = {
    resend: ({ batchId }: { batchId: string }, _burntIds: number, onAck: OnAck) => {
      sent.push(batchId)
      underWay.push(onAck)
    },
    refusalNow: () => null,
    get unackedRecords() {
      return beside.live + underWay.length
    },
    connection: {} as NatsConnection,
    status: { state: 'ok', reason: null },
    stop: () => Promise.resolve(),
  }
  const { spool } = await openSpool({
    ...spoolOptions({ directory, stream: stream as unknown as StreamPublisher, disk: new RealDisk(), timers }),
    partitions: 1,
  })
  const acknowledge = (): void => {
    for (const onAck of underWay.splice(0)) onAck('durable', undefined, sent.length)
  }
  /** Until nothing more is sent. */
  const settled = async (): Promise<number> => {
    for (let quiet = 0, before = -1; quiet < 20; quiet += 1) {
      if (underWay.length !== before || (underWay.length === 0 && sent.length < BATCHES)) quiet = 0
      before = underWay.length
      await timers.pass(50)
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
    return underWay.length
  }
  onTestFinished(async () => {
    const stopped = spool.stop()
    for (let turns = 0; turns < 100; turns += 1) {
      acknowledge()
      await timers.pass(50)
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    await stopped
  })
  return { sent, settled, acknowledge, ids: records.map(({ batchId }) => batchId) }
}

test.each([
  { live: 0, wanted: 64, why: 'a whole window without live traffic' },
  { live: 40, wanted: 24, why: 'what live traffic leaves of a window' },
  { live: 63, wanted: 8, why: 'a tenth of all, where that is more' },
  { live: 900, wanted: 113, why: 'a tenth of all, however much is live' },
])('$wanted messages beside $live live ones: $why', async ({ live, wanted }) => {
  const { settled } = await drain({ live })
  expect(await settled()).toBe(wanted)
})

test('it gives way when live traffic comes, and sends the oldest first all the while, each once', async () => {
  const beside = { live: 0 }
  const { sent, settled, acknowledge, ids } = await drain(beside)
  expect(await settled()).toBe(64)
  beside.live = 90
  acknowledge()
  expect(await settled()).toBe(12)
  for (let turns = 0; sent.length < BATCHES && turns < 100; turns += 1) {
    acknowledge()
    expect(await settled()).toBeLessThanOrEqual(12)
    if (sent.length > 150) beside.live = 0
    if (beside.live === 0) break
  }
  for (let turns = 0; sent.length < BATCHES && turns < 20; turns += 1) {
    acknowledge()
    await settled()
  }
  expect(sent).toEqual(ids)
})
