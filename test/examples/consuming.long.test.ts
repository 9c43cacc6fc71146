// The consumers of docs/consuming.md, taken from the page, beside a real service: with its journal, and with NATS.

import { symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { batch, post, single } from '../support/client.ts'
import { type Cluster, startCluster } from '../support/cluster.ts'
import { withConnection } from '../support/jetstream.ts'
import { codeWith, type Running, startLine } from '../support/page-code.ts'
import { appRecord, eventually, makeFolder, startService } from '../support/service.ts'

const PAGE = 'docs/consuming.md'

let folder: string
let consumer: Running | undefined

beforeEach(async () => {
  folder = await makeFolder()
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  symlinkSync(resolve(import.meta.dirname, '../../node_modules'), join(folder, 'node_modules'))
})
afterEach(async () => {
  await consumer?.stop()
  consumer = undefined
})

function start(command: string, code: string, env: Readonly<Record<string, string>>): void {
  const file = join(folder, 'consumer.js')
  writeFileSync(file, code)
  consumer = startLine(command.replace('consumer.js', file), env)
}

async function expectPrinted(lines: readonly string[], timeoutMs?: number): Promise<void> {
  const printed = () =>
    consumer
      ?.output()
      .split('\n')
      .filter((line) => line.startsWith('shop '))
  const hasPrinted = () => (printed()?.length ?? 0) >= lines.length
  await eventually(`it has printed ${lines.length} events`, hasPrinted, timeoutMs).catch((error: Error) => {
    throw new Error(`${error.message}:\n${consumer?.output()}`)
  })
  expect(printed()).toEqual(lines)
}

/** Sends a body that fits; its batch's id. */
async function sent(to: { port: number }, body: string): Promise<string> {
  const answer = await post(to, body)
  expect(answer.status).toBe(202)
  return String(answer.headers['x-batch-id'])
}

it('on one machine prints each event that was stored before it and that comes while it runs', async () => {
  const service = await startService({ dataDir: folder, apps: [appRecord('shop')] })
  try {
    const first = await sent(service, batch('ak_shop', 2))
    start(codeWith(PAGE, 'sh', 'consumer.js'), codeWith(PAGE, 'js', 'process.stdin'), { SLUICE_DATA_DIR: folder })
    await expectPrinted([`shop ${first}:0 signup`, `shop ${first}:1 signup`])
    const second = await sent(service, single('ak_shop', { name: 'later' }))
    await expectPrinted([`shop ${first}:0 signup`, `shop ${first}:1 signup`, `shop ${second}:0 later`])
  } finally {
    await consumer?.stop()
    await service.stop()
  }
})

it('with NATS prints each event once, and goes on where it had acknowledged', async () => {
  const cluster = await startCluster({ nodes: 1, apps: [appRecord('shop')] })
  const run = () => start('node consumer.js', codeWith(PAGE, 'js', 'jetstreamManager'), { NATS_URL: cluster.nats.url })
  try {
    const [node] = cluster.nodes
    const first = await sent(node, batch('ak_shop', 2))
    run()
    await expectPrinted([`shop ${first}:0 signup`, `shop ${first}:1 signup`])
    const second = await sent(node, single('ak_shop', { name: 'later' }))
    await expectPrinted([`shop ${first}:0 signup`, `shop ${first}:1 signup`, `shop ${second}:0 later`])
    await everythingIsAcknowledged(cluster)
    await consumer?.stop()
    const third = await sent(node, single('ak_shop', { name: 'after' }))
    run()
    // The server may have sent it to the program that just ended: it comes again once the 30 s for its acknowledgement are over.
    await expectPrinted([`shop ${third}:0 after`], 60_000)
  } finally {
    await consumer?.stop()
    await cluster.stop()
  }
})

async function everythingIsAcknowledged({ nats }: Cluster): Promise<void> {
  await withConnection(nats.url, async (connection) => {
    const manager = await jetstreamManager(connection)
    await eventually('each message is acknowledged', async () => {
      const { num_ack_pending: pending, num_pending: unread } = await manager.consumers.info('SLUICE_EVENTS', 'mine')
      return pending === 0 && unread === 0
    })
  })
}
