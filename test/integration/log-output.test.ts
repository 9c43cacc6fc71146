// The log's output fails, stalls or goes: requests, probes, metrics and SIGTERM go on as ever.

import { appendFileSync, closeSync, openSync, readFileSync, rmSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { expectAccepted, get, post, single } from '../support/client.ts'
import {
  entriesIn,
  expectEnd,
  expectServing,
  logMuch,
  openPipe,
  startInTerminal,
  startInto,
  untilDropped,
} from '../support/log-output.ts'
import { startNats } from '../support/nats.ts'
import { startRedis } from '../support/redis.ts'
import { eventually, makeFolder } from '../support/service.ts'
import { mountSmall, takeAllRoom } from '../support/small-disk.ts'

describe('a log that nobody reads', () => {
  test('a pipe: SIGTERM ends the service with 0, and an error that nobody caught with 1', async () => {
    const throws = "process.on('SIGUSR2', () => { throw new Error('planted') })"
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(throws)}` }
    for (const [signal, code] of [
      ['SIGTERM', 0],
      ['SIGUSR2', 1],
    ] as const) {
      const pipe = await openPipe()
      const node = await startInto(['ignore', pipe.writer, pipe.writer], { env })
      closeSync(pipe.writer)
      await logMuch(node, 90_000)
      await expectServing(node)
      node.child.kill(signal)
      expect(await node.ended, signal).toBe(code)
      expect(pipe.read(), 'what waited first is read').toContain('"msg":"listening"')
    }
  })

  test('a reader that has gone', async () => {
    const pipe = await openPipe()
    const node = await startInto(['ignore', pipe.writer, pipe.writer])
    closeSync(pipe.writer)
    pipe.close()
    node.child.kill('SIGHUP')
    await untilDropped(node)
    await expectServing(node)
    await expectEnd(node)
  })
})

describe('a log that cannot be written', () => {
  test('from the start, nor what is printed beside it', async () => {
    const full = openSync('/dev/full', 'w')
    const node = await startInto(['ignore', full, full], { env: { SLUICE_APPS_FILE: '' } })
    closeSync(full)
    await untilDropped(node)
    expect((await get(node.adminPort, '/livez')).status).toBe(200)
    const { apps } = JSON.parse(readFileSync(join(node.dataDir, 'apps.json'), 'utf8')) as {
      apps: { app_key: string }[]
    }
    expectAccepted(await post(node, single(apps[0].app_key)), 1)
    await expectEnd(node)
  })

  test('an error that nobody caught ends the service with 1', async () => {
    const throws = "process.on('SIGUSR2', () => { throw new Error('planted') })"
    const full = openSync('/dev/full', 'w')
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(throws)}` }
    const node = await startInto(['ignore', full, full], { env })
    closeSync(full)
    node.child.kill('SIGUSR2')
    expect(await node.ended).toBe(1)
  })

  test('closed', async () => {
    const node = await startInto('ignore', { shell: 'exec "$@" >&- 2>&- <&-' })
    node.child.kill('SIGHUP')
    await expectServing(node)
    await expectEnd(node)
  })

  test('a file that has reached the limit of sizes, and is then made smaller', async () => {
    const file = join(await makeFolder(), 'log')
    const limit = 1_073_741_824
    appendFileSync(file, '')
    truncateSync(file, limit)
    const log = openSync(file, 'a')
    const node = await startInto(['ignore', log, log], { shell: `ulimit -f ${limit / 1024} && exec "$@"` })
    closeSync(log)
    await untilDropped(node)
    await expectServing(node)
    truncateSync(file, 0)
    await eventually('the log goes on', () => /"dropped":\d+/.test(readFileSync(file, 'utf8')))
    await expectEnd(node)
    expect(entriesIn(readFileSync(file, 'utf8')).at(-1)).toMatchObject({ msg: 'stopped' })
  })

  test('a disk that fills, and has room again: no line is cut', async ({ skip }) => {
    const disk = mountSmall('256k', skip)
    const log = openSync(join(disk, 'log'), 'a')
    const node = await startInto(['ignore', log, log])
    closeSync(log)
    takeAllRoom(join(disk, 'fill'))
    await logMuch(node, 300_000)
    await untilDropped(node)
    await expectServing(node)
    rmSync(join(disk, 'fill'))
    const text = (): string => readFileSync(join(disk, 'log'), 'utf8')
    await eventually('the log goes on', () => /"dropped":\d+.*\n/.test(text()))
    await expectEnd(node)
    const entries = entriesIn(text())
    expect(entries, 'the first lines stay').toContainEqual(expect.objectContaining({ msg: 'listening' }))
    expect(entries.at(-1)).toMatchObject({ msg: 'stopped' })
  })

  test('several processes', async () => {
    const [redis, nats] = await Promise.all([startRedis(), startNats()])
    const full = openSync('/dev/full', 'w')
    const env = { REDIS_URL: redis.url, NATS_URL: nats.url, SLUICE_PROCESSES: '2' }
    const node = await startInto(['ignore', full, full], { env })
    closeSync(full)
    await untilDropped(node)
    await expectServing(node)
    await expectEnd(node)
  })
})

describe('a terminal', () => {
  test('that is closed: SIGTERM ends the service with 0', async () => {
    const { node, pid, expectCode } = await startInTerminal()
    node.child.kill('SIGKILL')
    await node.ended
    process.kill(pid, 'SIGHUP')
    await untilDropped(node)
    await expectServing(node)
    await expectCode(0)
  })
})
