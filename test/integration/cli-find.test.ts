// `sluice find`, as someone at a terminal meets it, over a real NATS.

import { AckPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { headers as createHeaders } from '@nats-io/transport-node'
import { describe, expect, test } from 'vitest'
import { partitionOf } from '../../src/contract/partition.ts'
import { subjectOf } from '../../src/queue/stream/stream.ts'
import { makeBatch } from '../support/batches.ts'
import { addStream, withConnection } from '../support/jetstream.ts'
import { startNats } from '../support/nats.ts'
import { startProxy } from '../support/proxy.ts'
import { eventually, runCommand, startCommand } from '../support/service.ts'

const KEY = '0b9e3a52-6f0c-4d7e-9a55-2f8c1d3e4b6a'

describe('the stream', () => {
  const REDIS_URL = 'redis://127.0.0.1:1'

  test('shows a batch with what each consumer has had of it', async () => {
    const nats = await startNats()
    await addStream(nats.url)
    const wanted = makeBatch({ appId: 'shop', receivedAtMs: Date.now(), events: '[{"a":1},{"b":2},{"c":3}]' })
    const subject = subjectOf(partitionOf('shop', 16))
    await withConnection(nats.url, async (connection) => {
      const { consumers } = await jetstreamManager(connection)
      for (const name of ['audit-log', 'warehouse']) {
        await consumers.add('SLUICE_EVENTS', { durable_name: name, ack_policy: AckPolicy.Explicit })
      }
      await jetstream(connection).publish(subject, wanted.line)
      const message = await (await jetstream(connection).consumers.get('SLUICE_EVENTS', 'warehouse')).next()
      await message?.ackAck()
    })
    const { code, stdout } = await runCommand(['find', wanted.id], { REDIS_URL, NATS_URL: nats.url })
    expect(code).toBe(0)
    expect(stdout).toContain(`Batch ${wanted.id} of app shop is stored: 3 events`)
    expect(stdout).toMatch(/^received \S+Z → stored \S+Z as message 1 of SLUICE_EVENTS \(sluice\.events\.\d+\)$/m)
    expect(stdout).toMatch(/^audit-log +was not sent it yet$/m)
    expect(stdout).toMatch(/^warehouse +has acknowledged it$/m)
  })

  test('of which two seconds reach only a part is read on by the command that the answer has', async () => {
    const nats = await startNats()
    const proxy = await startProxy(nats.port)
    await addStream(nats.url)
    const wanted = makeBatch({ appId: 'shop', key: KEY, receivedAtMs: Date.now() })
    const subject = subjectOf(partitionOf('shop', 16))
    await withConnection(nats.url, async (connection) => {
      const headers = createHeaders()
      headers.set('Nats-Msg-Id', wanted.id)
      await jetstream(connection).publish(subject, wanted.line, { headers })
      for (let at = 0; at < 2000; at++) {
        connection.publish(subject, makeBatch({ appId: 'shop', receivedAtMs: Date.now() }).line)
      }
      await eventually('all are stored', async () => {
        const { streams } = await jetstreamManager(connection)
        return (await streams.info('SLUICE_EVENTS')).state.messages === 2001
      })
    })
    // So slow that it takes seconds to read the stream.
    proxy.delay(100)
    const asked = ['find', '--app', 'shop', '--key', KEY, '--since', '1h', '--events']
    const slow = { REDIS_URL, NATS_URL: `nats://127.0.0.1:${proxy.port}` }
    const { code, stdout } = await runCommand(asked, slow)
    expect(code, stdout).toBe(1)
    const [, from, reach] = /was not found: searched from (\S+Z) to \S+Z, the queue reaches back to (\S+Z)\.$/m.exec(
      stdout,
    ) as unknown as string[]
    expect(Date.parse(reach)).toBeLessThan(Date.parse(from))
    const commandIn = (text: string) => /^ {2}sluice (find .* --before \S+Z --events)$/m.exec(text)?.[1]
    expect(commandIn(stdout)).toMatch(/^find --app shop --key \S+ --since \S+Z --before /)
    // A busy machine may take more than one.
    let told = stdout
    for (let next = commandIn(told); next !== undefined; next = commandIn(told))
      told = (await runCommand(next.split(' '), { REDIS_URL, NATS_URL: nats.url })).stdout
    expect(told).toContain(`Batch ${wanted.id} of app shop is stored`)
    expect(told).toContain('"event":{')
    const json = await runCommand([...asked, '--json'], slow)
    expect(JSON.parse(json.stdout)).toMatchObject({ found: false, complete: false, reason: 'stopped' })
    expect(Date.parse((JSON.parse(json.stdout) as Record<string, string>)['go_on_before'])).toBeGreaterThan(
      Date.parse(reach),
    )
  })

  test('that does not answer is left by Ctrl-C', async () => {
    const nats = await startNats()
    const proxy = await startProxy(nats.port)
    await addStream(nats.url)
    const { id } = makeBatch({ receivedAtMs: Date.now() })
    await withConnection(nats.url, async (connection) => {
      await jetstream(connection).publish('sluice.events.1', makeBatch({ receivedAtMs: Date.now() }).line)
      const created = connection.subscribe('$JS.EVENT.ADVISORY.CONSUMER.CREATED.SLUICE_EVENTS.*', { max: 1 })
      await connection.flush()
      // So slow that the search is still under way when the connection is held.
      proxy.delay(300)
      const command = startCommand(['find', id], { REDIS_URL, NATS_URL: `nats://127.0.0.1:${proxy.port}` })
      await created[Symbol.asyncIterator]().next()
      proxy.hold()
      process.kill(command.pid, 'SIGINT')
      expect(await command.exited).toMatchObject({ code: 1, signal: null })
    })
  })
})
