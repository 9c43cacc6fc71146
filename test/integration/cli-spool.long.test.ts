// `sluice spool`, as an operator uses it: on a folder whose node works, was killed, or never was.

import { randomUUID } from 'node:crypto'
import { appendFile, mkdir, readdir, readFile, rename, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { acquireLock } from '../../src/lib/lock.ts'
import { makeBatch } from '../support/batches.ts'
import { batch, expectAccepted, get, post } from '../support/client.ts'
import { needCurrentNats, startNats } from '../support/nats.ts'
import { freePort } from '../support/processes.js'
import { startRedis } from '../support/redis.ts'
import {
  appRecord,
  type CommandResult,
  eventually,
  makeFolder,
  runCommand,
  startCommand,
  startService,
} from '../support/service.ts'
import { readRecords, STREAM, withStreams } from '../support/stream.ts'

/** Between two looks of drain. */
const TELL_MS = 2000
const APPS = [appRecord('one'), appRecord('two')]
const ON = { REDIS_URL: 'redis://127.0.0.1:1', NATS_URL: 'nats://127.0.0.1:1' }

function spool(action: 'list' | 'verify' | 'drain', folder: string, env = {}, ...flags: string[]) {
  return runCommand(['spool', action, folder, ...flags], env)
}

async function listed(folder: string): Promise<Record<string, unknown>> {
  const { code, stdout } = await spool('list', folder, {}, '--json')
  expect(code).toBe(0)
  return JSON.parse(stdout) as Record<string, unknown>
}

function expectFailed({ code, output }: CommandResult, words: string): void {
  expect(output).toContain(words)
  // No stack.
  expect(output.split('\n')).toHaveLength(2)
  expect(code).toBe(1)
}

/** A message is known to be synced when it is acknowledged, so that a spool is let go at once. */
async function startSyncingNats(program: string) {
  const file = join(await makeFolder(), 'nats.conf')
  await writeFile(file, 'jetstream { sync_interval: always }\n')
  const monitorPort = String(await freePort())
  const nats = await startNats(['--config', file, '--http_port', monitorPort], program)
  return { nats, monitorUrl: `http://127.0.0.1:${monitorPort}` }
}

test('what a node that was killed has left is listed, whole, and sent once', async (context) => {
  const [redis, { nats, monitorUrl }, dataDir] = await Promise.all([
    startRedis(),
    startSyncingNats(needCurrentNats(context)),
    makeFolder(),
  ])
  onTestFinished(async () => void (await Promise.all([redis.stop(), nats.stop()])))
  const folder = join(dataDir, 'spool')
  const env = {
    REDIS_URL: redis.url,
    NATS_URL: nats.url,
    NATS_MONITOR_URLS: monitorUrl,
    SLUICE_ADMIN_HOST: '127.0.0.1',
  }
  const node = await startService({
    dataDir,
    apps: APPS,
    env: { ...env, SLUICE_APPS_FILE: join(dataDir, 'apps.json'), SLUICE_SPOOL_DIR: folder },
  })
  const ids: string[] = []
  const found = (...args: string[]) => runCommand(['find', ...args], { ...env, SLUICE_SPOOL_DIR: folder })
  const send = async (key: string, count: number, headers = {}): Promise<void> => {
    const answer = await post(node, batch(key, count), headers)
    expectAccepted(answer, count)
    ids.push(String(answer.headers['x-batch-id']))
  }
  // The stream is there.
  await send('ak_one', 1)
  await nats.kill()
  const key = randomUUID()
  for (const headers of [{}, { 'Idempotency-Key': key }, {}, {}]) await send('ak_one', 2, headers)
  for (let at = 0; at < 3; at++) await send('ak_two', 5)
  const held = {
    batches: 7,
    kept_batches: 0,
    apps: [
      { app_id: 'one', batches: 4, events: 8 },
      { app_id: 'two', batches: 3, events: 15 },
    ],
  }
  expect(await listed(folder)).toMatchObject({ ...held, in_use: true })
  expectFailed(await spool('drain', folder, env), `${folder} is in use`)
  // NATS is away, and what is on this disk is found all the same.
  const inSpool = { found: true, batch_id: ids[1], place: { kind: 'spool', folder } }
  const shown = await get(node.adminPort, `/api/batches/${ids[1]}?events=1`)
  expect(shown.json).toMatchObject({ ...inSpool, place: { ...inSpool.place, since: shown.json['received_at'] } })
  expect(shown.json['record']).not.toHaveProperty('spool')
  expect((await get(node.adminPort, `/api/search?q=${ids[1]}`)).json).toMatchObject({ found: [{ batch_id: ids[1] }] })
  await node.kill()
  const byKey = await found('--app', 'one', '--key', key, '--events')
  expect(byKey.stdout).toMatch(
    new RegExp(
      `^Batch ${ids[2]} of app one is in the spool of this node: 2 events, .*\nreceived \\S+Z → not in the stream yet, .* tail -c \\+\\d+ ${folder}/journal/`,
    ),
  )
  expect(byKey.code).toBe(0)
  expect(await listed(folder)).toMatchObject({ ...held, in_use: false })
  const { stdout: table } = await spool('list', folder)
  expect(table).toMatch(/7 batches \(.*\), the oldest from \S+Z\nNo node works in it: .*\napp +batches +events\ntwo /)
  const { code: verified, stdout: verdict } = await spool('verify', folder)
  expect([verdict, verified]).toEqual([expect.stringMatching(/: 7 records, 23 events, .*\nAll is well\.\n$/), 0])

  const early = startCommand(['spool', 'drain', folder], env)
  await eventually('it waits for NATS', () => early.output().includes('left: 7 batches'))
  early.signal('SIGINT')
  expect(await early.exited).toMatchObject({ code: 1, signal: null })
  expect(early.output()).toContain('nothing is lost')
  expect(await listed(folder)).toMatchObject({ ...held, in_use: false })

  await nats.restart()
  const { code, output } = await spool('drain', folder, env)
  expect(output).toContain(`${folder}: all is sent, and nothing is left in it`)
  expect(code).toBe(0)
  const stored = (await readRecords(nats.url)).map(({ batch_id }) => batch_id)
  expect(stored.toSorted()).toEqual(ids.toSorted())
  expect((await found(ids[2])).stdout).toContain(`Batch ${ids[2]} of app one is stored: 2 events`)
  expect(await listed(folder)).toMatchObject({ batches: 0, bytes: 0, kept_batches: 0, apps: [] })
  expect((await spool('list', folder)).stdout).toBe(`${folder}: empty\nNo node works in it.\n`)
  const lastSequence = () => withStreams(nats.url, async ({ streams }) => (await streams.info(STREAM)).state.last_seq)
  const before = await lastSequence()
  expect((await spool('drain', folder, env)).code).toBe(0)
  expect(await lastSequence()).toBe(before)
})

test('what worker processes have left is listed and sent with the folder that theirs are in', async (context) => {
  const [redis, { nats, monitorUrl }, folder] = await Promise.all([
    startRedis(),
    startSyncingNats(needCurrentNats(context)),
    makeFolder(),
  ])
  onTestFinished(async () => void (await Promise.all([redis.stop(), nats.stop()])))
  const env = { REDIS_URL: redis.url, NATS_URL: nats.url, NATS_MONITOR_URLS: monitorUrl }
  const ids: string[] = []
  const fill = async (name: string, appId: string, batches: number): Promise<string> => {
    const minute = Math.floor(Date.now() / 60_000)
    const lines = Array.from({ length: batches }, () => {
      const { line, id } = makeBatch({ appId, receivedAtMs: Date.now() })
      ids.push(id)
      return line.replace(/}\n$/, `,"spool":"${minute} ${minute - 1000} plain"}\n`)
    })
    await mkdir(join(folder, name, 'journal'), { recursive: true })
    await writeFile(join(folder, name, 'journal', '000000000001.ndjson'), lines.join(''))
    return join(folder, name)
  }
  // One process worked in it later, and has sent what it had.
  await fill('.', 'one', 0)
  const [first, second] = [await fill('worker-1', 'one', 2), await fill('worker-2', 'one', 1)]
  expect(await listed(folder)).toMatchObject({
    batches: 3,
    apps: [{ app_id: 'one', batches: 3, events: 3 }],
    folders: [
      { folder, batches: 0 },
      { folder: first, batches: 2 },
      { folder: second, batches: 1 },
    ],
  })
  const { stdout } = await spool('list', folder)
  for (const words of [`${folder}: empty\n`, `${first}: 2 batches`, `${second}: 1 batches`])
    expect(stdout).toContain(words)

  const lock = await acquireLock(second)
  if ('held' in lock) throw new Error('somebody has it')
  const some = await spool('drain', folder, env)
  expect(some.stdout).toContain(`${second}: in use: the process that works in it sends it itself\n`)
  expect(some.stdout).toContain(`${first}: all is sent, and nothing is left in it\n`)
  expect(some.code).toBe(1)
  expect(await listed(folder)).toMatchObject({ batches: 1, in_use: true })
  await lock.release()

  const rest = await spool('drain', folder, env)
  const sent = [second, first, folder].map((one) => `${one}: all is sent, and nothing is left in it\n`)
  expect([rest.stdout, rest.code]).toEqual([sent.join(''), 0])
  expect(await listed(folder)).toMatchObject({ batches: 0, kept_batches: 0, apps: [] })
  const stored = (await readRecords(nats.url)).map(({ batch_id }) => batch_id)
  expect(stored.toSorted()).toEqual(ids.toSorted())
})

test('verify names what is damaged, and what is no batch of a spool', async () => {
  const folder = await makeFolder()
  const journal = join(folder, 'journal')
  await mkdir(journal)
  const { line, id } = makeBatch({ appId: 'one', receivedAtMs: Date.now() })
  const spooled = line.replace(/}\n$/, ',"spool":"29000000 28999000 plain"}\n')
  const file = join(journal, '000000000001.ndjson')
  await writeFile(file, spooled)
  await writeFile(join(folder, 'cursor.json'), 'no\u001b[2Jcursor')
  expect((await spool('verify', folder)).stdout).toContain('cursor.json: it cannot be read')
  await appendFile(file, `${line}hello\n`)
  const { code, stdout } = await spool('verify', folder, {}, '--json')
  const { problems } = JSON.parse(stdout) as { problems: { kind: string; where: string; at: number; detail: string }[] }
  expect(code).toBe(1)
  expect(problems.map(({ kind, where, at }) => ({ kind, where, at }))).toEqual([
    { kind: 'cursor', where: join(folder, 'cursor.json'), at: null },
    { kind: 'record', where: file, at: spooled.length },
    { kind: 'record', where: file, at: spooled.length + line.length },
  ])
  expect(problems[1].detail).toContain(`batch ${id}`)
  expect((await spool('list', folder)).stdout).toMatch(/: 1 batches .*\n.*\nSome of it is damaged/)
  await truncate(file, spooled.length)
  expect((await spool('verify', folder, {}, '--json')).stdout).toContain('"records":1')
  const setAside = join(folder, 'damaged', 'journal')
  await mkdir(setAside, { recursive: true })
  await rename(file, join(setAside, '000000000001.ndjson'))
  await writeFile(join(setAside, '000000000007.ndjson'), `${spooled}hello\n`)
  const left = await spool('verify', folder)
  expect(left.stdout).toContain(`damaged/journal/000000000007.ndjson at ${spooled.length}`)
  expect(left.stdout).not.toContain('missing')
  expect((await spool('list', folder)).stdout).toMatch(/: empty\n.*\nSome of it is damaged/)
})

test('a folder is called empty only where nothing is kept until NATS has synced it', async () => {
  const folder = await makeFolder()
  await mkdir(join(folder, 'journal'))
  const { line } = makeBatch({ appId: 'one', receivedAtMs: Date.now() })
  const spooled = line.replace(/}\n$/, ',"spool":"29000000 28999000 plain"}\n')
  await writeFile(join(folder, 'journal', '000000000001.ndjson'), spooled)
  const [start, end] = [0, spooled.length].map((offset) => ({ segment: 1, offset }))
  const cursor = { version: 1, id: '0123456789ab', released: start, sent: end, reserved: end, witness: null }
  await writeFile(join(folder, 'cursor.json'), JSON.stringify(cursor))
  expect((await spool('list', folder)).stdout).toBe(
    `${folder}: nothing left to send; 1 sent and kept until NATS has synced them\n` +
      'No node works in it: start one with this folder, or sluice spool drain.\n',
  )
  await writeFile(join(folder, 'cursor.json'), JSON.stringify({ ...cursor, released: end }))
  expect((await spool('list', folder)).stdout).toBe(`${folder}: empty\nNo node works in it.\n`)
})

test('drain says once about how long it waits for NATS, and what is kept where that is interrupted', async () => {
  const [redis, nats, folder] = await Promise.all([startRedis(), startNats(), makeFolder()])
  onTestFinished(async () => void (await Promise.all([redis.stop(), nats.stop()])))
  await mkdir(join(folder, 'journal'))
  const { line } = makeBatch({ appId: 'one', receivedAtMs: Date.now() })
  const minute = Math.floor(Date.now() / 60_000)
  const spooled = line.replace(/}\n$/, `,"spool":"${minute} ${minute - 1000} plain"}\n`)
  await writeFile(join(folder, 'journal', '000000000001.ndjson'), spooled)
  const env = { REDIS_URL: redis.url, NATS_URL: nats.url }
  const drain = startCommand(['spool', 'drain', folder], env)
  const waits = 'all is sent; waiting until NATS has synced it: for 4 min or so'
  await eventually('it waits', () => drain.output().includes(waits))
  await sleep(2 * TELL_MS)
  drain.signal('SIGINT')
  expect(await drain.exited).toMatchObject({ code: 1, signal: null })
  expect(drain.output().split(waits)).toHaveLength(2)
  expect(drain.output()).toContain(`${folder}: all is sent, and kept until NATS has synced it; nothing is lost\n`)
  expect(await listed(folder)).toMatchObject({ batches: 0, kept_batches: 1 })
})

test('a volume whose node never started has nothing to be sent', async () => {
  const volume = await makeFolder()
  await mkdir(join(volume, 'lost+found'))
  const never = join(volume, 'spool')
  const words = `${never}: no node has written here, and nothing is to be sent\n`
  expect(await spool('drain', never, ON)).toMatchObject({ code: 0, output: words })
  // Where other things are, or nothing at all, the path is likely wrong.
  expectFailed(await spool('drain', join(volume, 'none', 'spool'), ON), 'cannot be read: ENOENT')
})

test('a folder that is no spool is named, and left as it is', async () => {
  const folder = await makeFolder()
  const gone = join(folder, 'gone\u001b[2J')
  await writeFile(join(folder, 'note'), '')
  for (const action of ['list', 'verify', 'drain'] as const)
    expectFailed(await spool(action, gone, ON), `${join(folder, 'gone?[2J')} cannot be read: ENOENT`)
  // A journal of one machine.
  await mkdir(join(folder, 'journal'))
  const { line, id } = makeBatch({ receivedAtMs: Date.now() })
  const file = join(folder, 'journal', '000000000001.ndjson')
  await writeFile(file, line)
  for (const action of ['list', 'drain'] as const)
    expectFailed(await spool(action, folder, ON), `${folder} is no spool: its journal has no batch of one`)
  const serving = await runCommand(['serve'], { ...ON, SLUICE_SPOOL_DIR: folder, SLUICE_DATA_DIR: folder, PORT: '0' })
  expect(serving.output).toContain(`${folder} holds a journal that is no spool`)
  expect(serving.code).toBe(1)
  expect(await readFile(file, 'utf8')).toBe(line)
  expect(await readdir(folder)).not.toContain('cursor.json')
  for (const action of ['list', 'verify', 'drain'] as const)
    expectFailed(await spool(action, file, ON), `${file} is not a folder`)
  const { output } = await runCommand(['find', id], { ...ON, SLUICE_SPOOL_DIR: file })
  expect(output).toContain(`sluice find: the spool in ${file} cannot be read: ENOTDIR`)
  // Of worker processes.
  await mkdir(join(folder, 'all', 'worker-1', 'journal'), { recursive: true })
  expect((await spool('list', join(folder, 'all'))).stdout).toContain(`${join(folder, 'all', 'worker-1')}: empty`)
  const empty = join(folder, 'empty')
  await mkdir(empty)
  expect((await spool('list', empty)).stdout).toContain('empty')
  expectFailed(await spool('drain', empty), 'set REDIS_URL and NATS_URL')
  expect(await readdir(empty)).toEqual([])
})

test('a wrong command line ends with 2', async () => {
  for (const args of [[], ['show', '/'], ['list'], ['list', ''], ['drain', '/', '--json']])
    expect((await runCommand(['spool', ...args], {})).code).toBe(2)
})
