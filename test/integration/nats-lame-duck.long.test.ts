// A NATS server in lame duck mode, as before each restart in a rollout: it asks its clients to leave, and closes their connections
// some seconds later. A node goes to another server, and what it is given meanwhile is stored once.

import { execFileSync } from 'node:child_process'
import { expect, it, onTestFinished } from 'vitest'
import { countBatches, openReadyQueue, publishTo, readStreamPlainly } from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { needCurrentNats, startNatsCluster } from '../support/nats.ts'
import { eventually } from '../support/service.ts'

it('a server in lame duck mode is left for another one, and nothing that was acknowledged is lost or stored twice', async (context) => {
  const program = needCurrentNats(context)
  const servers = await startNatsCluster(3, program)
  const { queue } = await openReadyQueue(servers.map(({ url }) => url).join(','), {
    newStream: { replicas: 3, keepMs: 3_600_000, maxBytes: null },
  })
  onTestFinished(() => queue.stop())
  const left = queue.connection?.getServer() ?? ''
  const server = servers.find(({ port }) => left.endsWith(`:${port}`))
  if (server === undefined) throw new Error(`no server is ${left}`)
  execFileSync(program, ['--signal', `ldm=${server.pid}`])
  const durable = new Set<string>()
  const refused = new Set<string>()
  const isElsewhere = async (): Promise<boolean> => {
    const record = makeRecord({ keyed: true })
    const { ack } = await publishTo(queue, record)
    if (ack === 'durable' || ack === 'duplicate') durable.add(record.batchId)
    else if (ack !== 'in_doubt') refused.add(record.batchId)
    const now = queue.connection?.getServer()
    return ack === 'durable' && now !== undefined && now !== left
  }
  await eventually('it is stored by way of another server', isElsewhere, 60_000)
  const other = servers.find((one) => one !== server)
  const counts = countBatches(await readStreamPlainly(other?.url ?? ''))
  expect(durable.size).toBeGreaterThan(10)
  for (const batchId of durable) expect(counts.get(batchId)).toBe(1)
  for (const batchId of refused) expect(counts.get(batchId)).toBeUndefined()
})
