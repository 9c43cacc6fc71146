// `sluice find`, as someone at a terminal meets it: beside a running service, after a crash, and over a real NATS.

import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { appendFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { AckPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { partitionOf } from '../../src/queue/partition.ts'
import { subjectOf } from '../../src/queue/stream/stream.ts'
import { makeBatch } from '../support/batches.ts'
import { batch, expectAccepted, post } from '../support/client.ts'
import { addStream, withConnection } from '../support/jetstream.ts'
import { startNats } from '../support/nats.ts'
import { freePort } from '../support/programs.ts'
import { startProxy } from '../support/proxy.ts'
import {
  appRecord,
  makeFolder,
  removeFolder,
  runCommand,
  type Service,
  startCommand,
  startService,
} from '../support/service.ts'

const KEY = '0b9e3a52-6f0c-4d7e-9a55-2f8c1d3e4b6a'

describe('the journal of a service', () => {
  let folder: string
  let service: Service
  let env: Record<string, string>
  const ids: string[] = []
  let keyedId: string

  beforeAll(async () => {
    folder = await makeFolder()
    service = await startService({ dataDir: folder, apps: [appRecord('one'), appRecord('two')] })
    env = { SLUICE_DATA_DIR: folder }
    for (let count = 1; count <= 3; count++) {
      const answer = await post(service, batch('ak_one', count, { sdk_version: '2.1.0' }))
      expectAccepted(answer, count)
      ids.push(String(answer.headers['x-batch-id']))
    }
    const keyed = await post(service, batch('ak_two', 2), { 'Idempotency-Key': KEY.toUpperCase() })
    expectAccepted(keyed, 2)
    keyedId = String(keyed.headers['x-batch-id'])
  })
  afterAll(async () => {
    await service?.kill()
    await removeFolder(folder)
  })

  test('shows a batch by the id of its 202, and the line that it prints reads the record', async () => {
    const { code, stdout } = await runCommand(['find', ids[1]], env)
    expect(code).toBe(0)
    expect(stdout).toContain(`Batch ${ids[1]} of app one is stored: 2 events, sdk_version "2.1.0", accepted `)
    const command = /(tail -c .*)$/m.exec(stdout)?.[1] ?? ''
    const record: unknown = JSON.parse((await promisify(execFile)('bash', ['-c', command])).stdout)
    expect(record).toMatchObject({ batch_id: ids[1], app_id: 'one' })
  })

  test('shows a batch by app and key, for people and for scripts, with its events where they are asked for', async () => {
    const byKey = ['find', '--app', 'two', '--key', KEY]
    expect((await runCommand(byKey, env)).stdout).toContain(`Batch ${keyedId} of app two is stored: 2 events`)
    const plain = await runCommand([...byKey, '--json'], env)
    expect(JSON.parse(plain.stdout)).toMatchObject({ found: true, batch_id: keyedId, events: 2, keyed: true })
    expect(JSON.parse(plain.stdout)).not.toHaveProperty('record')
    const whole = JSON.parse((await runCommand([...byKey, '--json', '--events'], env)).stdout) as { record: unknown }
    expect(whole.record).toMatchObject({ batch_id: keyedId, events: [{ type: 'track' }, { type: 'track' }] })
    const { stdout } = await runCommand([...byKey, '--events'], env)
    const lines = stdout.split('\n').filter((line) => line.startsWith('{'))
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { batch_id: keyedId, event: { type: 'track' } },
      { batch_id: keyedId, event: { type: 'track' } },
    ])
  })

  test('ends with 1 where the batch is not there, and says how far it looked', async () => {
    const absent = makeBatch({ receivedAtMs: Date.now() - 30_000 }).id
    const { code, stdout } = await runCommand(['find', absent], env)
    expect(code).toBe(1)
    expect(stdout).toMatch(/was not found: searched from \S+Z to \S+Z, the queue reaches back to \S+Z\.\n/)
    const byKey = await runCommand(['find', '--app', 'one', '--key', KEY, '--json'], env)
    expect(byKey.code).toBe(1)
    expect(JSON.parse(byKey.stdout)).toMatchObject({ found: false, complete: true })
  })

  test('ends with 2 for a wrong command line, which it explains', async () => {
    for (const [args, text] of [
      [[], 'ID is missing'],
      [['nonsense'], 'a batch id is a UUID'],
      [[randomUUID()], 'if it is an Idempotency-Key, give app and key'],
      [['--app', 'one'], 'give a batch id, or both app and key'],
      [[ids[0], '--key', KEY], 'unexpected'],
      [[ids[0], '--since', 'yesterday'], 'since must be a time'],
    ] as const) {
      const { code, output } = await runCommand(['find', ...args], env)
      expect(code, output).toBe(2)
      expect(output).toContain(text)
    }
  })

  // The last one, since it ends the service.
  test('is read after a crash that tore the last line', async () => {
    await service.kill()
    const directory = join(folder, 'journal')
    const [segment] = await readdir(directory)
    const torn = makeBatch({ receivedAtMs: Date.now() })
    await appendFile(join(directory, segment), torn.line.slice(0, -2))
    expect((await runCommand(['find', ids[2]], env)).code).toBe(0)
    expect((await runCommand(['find', torn.id], env)).code).toBe(1)
  })
})

describe('the stream', () => {
  const REDIS_URL = 'redis://127.0.0.1:1'

  test('shows a batch with what each consumer has had of it', async () => {
    const nats = await startNats()
    onTestFinished(() => nats.stop())
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

  test('that cannot be reached is one clear line without the password, and exit 1', async () => {
    const url = `nats://user:secret@127.0.0.1:${await freePort()}`
    const { id } = makeBatch({ receivedAtMs: Date.now() })
    const { code, output } = await runCommand(['find', id], { REDIS_URL, NATS_URL: url })
    expect(code).toBe(1)
    expect(output).toMatch(/^sluice find: NATS cannot be reached \([^\n]*connection refused\)\n$/)
    expect(output).not.toContain('secret')
  })

  test('that does not answer is left by Ctrl-C', async () => {
    const nats = await startNats()
    onTestFinished(() => nats.stop())
    const proxy = await startProxy(nats.port)
    onTestFinished(() => proxy.stop())
    await addStream(nats.url)
    const { id } = makeBatch({ receivedAtMs: Date.now() })
    await withConnection(nats.url, async (connection) => {
      await jetstream(connection).publish('sluice.events.1', makeBatch({ receivedAtMs: Date.now() }).line)
      const created = connection.subscribe('$JS.EVENT.ADVISORY.CONSUMER.CREATED.SLUICE_EVENTS.*', { max: 1 })
      await connection.flush()
      // So slow that the search is still under way when the connection is held.
      proxy.delay(300)
      const command = startCommand(['find', id], { REDIS_URL, NATS_URL: `nats://127.0.0.1:${proxy.port}` })
      onTestFinished(() => command.kill())
      await created[Symbol.asyncIterator]().next()
      proxy.hold()
      process.kill(command.pid, 'SIGINT')
      expect(await command.exited).toMatchObject({ code: 1, signal: null })
    })
  })
})
