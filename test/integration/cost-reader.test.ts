// The audit reads the stream while others write to it.

import { once } from 'node:events'
import { connect } from 'node:net'
import { headers, type NatsConnection } from '@nats-io/transport-node'
import { expect, it } from 'vitest'
import { partitionOf } from '../../src/contract/partition.ts'
import { systemTimers } from '../../src/lib/timers.ts'
import { CostReader } from '../../src/queue/stream/read/cost-reader.ts'
import { openReadyQueue, publishTo } from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { startNats } from '../support/nats.ts'

const MESSAGES = 5000

it('returns every message once while more are stored', async () => {
  const nats = await startNats()
  const { queue } = await openReadyQueue(nats.url)
  const connection = queue.connection!
  const partition = partitionOf('demo', 16)
  const reader = await CostReader.open(connection, partition, { sequence: 1 }, systemTimers)
  const record = makeRecord({ keyed: true })
  let isStored = false
  const storing = (async () => {
    for (let sent = 0; sent < MESSAGES; sent += 20) {
      const some = Array.from({ length: 20 }, () => ({ ...record, batchId: crypto.randomUUID() }))
      await Promise.all(some.map((each) => publishTo(queue, each)))
    }
    isStored = true
  })()
  const sequences: number[] = []
  for (let isLast = false; !isLast; ) {
    const wasStored = isStored
    const { messages, isEnd } = await reader.read()
    sequences.push(...messages.map(({ sequence }) => sequence))
    isLast = wasStored && isEnd
  }
  await storing
  expect(sequences).toEqual(Array.from({ length: MESSAGES }, (_, at) => at + 1))
  reader.close()
  await queue.stop()
})

it('has not reached the end where the server still holds the request before', async () => {
  const nats = await startNats()
  const { queue } = await openReadyQueue(nats.url)
  const connection = queue.connection!
  await publishTo(queue, makeRecord({ keyed: true }))
  let isHeld = true
  const publish: NatsConnection['publish'] = (subject, payload, options) => {
    const reply = options?.reply
    if (!isHeld || reply === undefined) return connection.publish(subject, payload, options)
    isHeld = false
    connection.publish(reply, '', { headers: headers(408, 'Requests Pending') })
  }
  const held = new Proxy(connection, {
    get: (target, name) => {
      const member: unknown = name === 'publish' ? publish : Reflect.get(target, name)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
  const reader = await CostReader.open(held, partitionOf('demo', 16), { sequence: 1 }, systemTimers)
  expect(await reader.read()).toEqual({ messages: [], isEnd: false })
  expect(await reader.read()).toMatchObject({ messages: [{ sequence: 1 }], isEnd: true })
  reader.close()
  await queue.stop()
})

it('reads past a message of somebody else whose headers cannot be read, over the same connection', async () => {
  const nats = await startNats()
  const { queue } = await openReadyQueue(nats.url)
  const connection = queue.connection!
  const partition = partitionOf('demo', 16)
  // The server passes on what is no name of a header.
  const header = 'NATS/1.0\r\nNo Name: x\r\n\r\n'
  const socket = connect(Number(new URL(nats.url).port), '127.0.0.1')
  const message = `HPUB sluice.events.${partition} ${header.length} ${header.length}\r\n${header}\r\n`
  socket.write(`CONNECT {"verbose":false,"headers":true}\r\n${message}PING\r\n`)
  for (let said = ''; !said.includes('PONG'); ) said += String((await once(socket, 'data'))[0])
  socket.destroy()
  await publishTo(queue, makeRecord({ keyed: true }))
  const reader = await CostReader.open(connection, partition, { sequence: 1 }, systemTimers)
  const { messages } = await reader.read()
  expect(messages).toMatchObject([
    { sequence: 1, id: '', text: null },
    { sequence: 2, text: expect.stringContaining('demo') },
  ])
  expect(queue.connection).toBe(connection)
  reader.close()
  await queue.stop()
})
