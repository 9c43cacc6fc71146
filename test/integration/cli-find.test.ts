// `sluice find`, as someone at a terminal meets it: beside a running service, after a crash, and over a real NATS.

import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { appendFile, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { AckPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { headers as createHeaders } from '@nats-io/transport-node'
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
  eventually,
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
  /** With the admin port, where refusals are asked for. */
  let askable: () => Record<string, string>
  const ids: string[] = []
  let keyedId: string

  beforeAll(async () => {
    folder = await makeFolder()
    service = await startService({ dataDir: folder, apps: [appRecord('one'), appRecord('two')] })
    env = { SLUICE_DATA_DIR: folder }
    askable = () => ({ ...env, SLUICE_ADMIN_PORT: String(service.adminPort) })
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
      [['nonsense'], 'ID: must be a UUID'],
      [[randomUUID()], 'ID: is no id of a batch or a request'],
      [['--app', 'one'], '--key: is missing'],
      [['--key', KEY], '--app: is missing'],
      [[ids[0], '--key', KEY], 'unexpected'],
      [[ids[0], '--since', 'yesterday'], '--since: must be a time'],
      [[ids[0], '--since', '1h', '--before', '2h'], '--before: must be later'],
    ] as const) {
      const { code, output } = await runCommand(['find', ...args], env)
      expect(code, output).toBe(2)
      expect(output).toContain(text)
    }
  })

  test('answers the X-Request-Id of a refusal with what the service knows of it', async () => {
    const refused = await post(service, batch('ak_one', 1, { sdk_version: 3 }))
    expect(refused.status).toBe(400)
    const id = String(refused.headers['x-request-id'])
    const { code, stdout } = await runCommand(['find', id.toUpperCase()], askable())
    expect(stdout).toMatch(/^Request \S+ of app one was refused at \S+Z, .+ ago: validation_failed\.\n/)
    expect(stdout).toContain(id)
    expect(stdout).toMatch(/^path +sdk_version$/m)
    expect(stdout).toMatch(/^message +sdk_version: /m)
    expect(code).toBe(0)
    const json = await runCommand(['find', id, '--json'], askable())
    expect(JSON.parse(json.stdout)).toMatchObject({
      found: true,
      refusal: { request_id: id, app_id: 'one', code: 'validation_failed', path: 'sdk_version' },
    })
  })

  test('says that no refusal is known under an id, or that the service could not be asked', async () => {
    const { id } = makeBatch({ receivedAtMs: Date.now() })
    const asked = await runCommand(['find', id], askable())
    expect(asked.code).toBe(1)
    expect(asked.output).toContain('the running service knows no refusal with this id')
    const alone = await runCommand(['find', id], { ...env, SLUICE_ADMIN_PORT: String(await freePort()) })
    expect(alone.code).toBe(1)
    expect(alone.output).toMatch(/the service could not be asked .*no service answers at 127\.0\.0\.1:\d+/)
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

test('a keyed batch in a journal of five hours is found by its id, with nothing running, and narrowed by times', async () => {
  const folder = await makeFolder()
  onTestFinished(() => removeFolder(folder))
  const sentAgo = (minutes: number) => makeBatch({ key: KEY, receivedAtMs: Date.now() - minutes * 60_000 })
  const [oldest, later] = [sentAgo(300), sentAgo(200)]
  const others = Array.from({ length: 60 }, (_, at) => makeBatch({ receivedAtMs: Date.now() - (200 - at) * 60_000 }))
  await mkdir(join(folder, 'journal'))
  const lines = [oldest, later, ...others].map(({ line }) => line).join('')
  await writeFile(join(folder, 'journal', '000000000001.ndjson'), lines)
  const receivedAt = async (...args: string[]): Promise<unknown> => {
    const { stdout } = await runCommand(['find', oldest.id, '--json', ...args], { SLUICE_DATA_DIR: folder })
    return (JSON.parse(stdout) as { received_at?: string }).received_at
  }
  const timeOf = ({ line }: { line: string }) => (JSON.parse(line) as { received_at: string }).received_at
  // Of two batches of one key the newer one, and the older one where a time says so.
  expect(await receivedAt()).toBe(timeOf(later))
  expect(await receivedAt('--before', timeOf(later))).toBe(timeOf(oldest))
  expect(await receivedAt('--before', '4h')).toBe(timeOf(oldest))
  expect(await receivedAt('--since', '3h')).toBeUndefined()
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

  test('of which two seconds reach only a part is read on by the command that the answer has', async () => {
    const nats = await startNats()
    onTestFinished(() => nats.stop())
    const proxy = await startProxy(nats.port)
    onTestFinished(() => proxy.stop())
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
    const command = /^ {2}sluice (find .* --before \S+Z --events)$/m.exec(stdout)?.[1] ?? ''
    expect(command).toMatch(/^find --app shop --key \S+ --since \S+Z --before /)
    const next = await runCommand(command.split(' '), { REDIS_URL, NATS_URL: nats.url })
    expect(next.stdout).toContain(`Batch ${wanted.id} of app shop is stored`)
    expect(next.stdout).toContain('"event":{')
    const json = await runCommand([...asked, '--json'], slow)
    expect(JSON.parse(json.stdout)).toMatchObject({ found: false, complete: false, reason: 'stopped' })
    expect(Date.parse((JSON.parse(json.stdout) as Record<string, string>)['go_on_before'])).toBeGreaterThan(
      Date.parse(reach),
    )
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
