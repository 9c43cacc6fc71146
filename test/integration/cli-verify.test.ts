// `sluice verify` over a real NATS. That of a journal is in test/transcripts/alone/verify.txt.

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { jetstream } from '@nats-io/jetstream'
import { headers as createHeaders } from '@nats-io/transport-node'
import { expect, onTestFinished, test } from 'vitest'
import { partitionOf } from '../../src/contract/partition.ts'
import { subjectOf } from '../../src/queue/stream/stream.ts'
import { makeBatch } from '../support/batches.ts'
import { addStream, withConnection } from '../support/jetstream.ts'
import { startNats } from '../support/nats.ts'
import { makeFolder, runCommand } from '../support/service.ts'

const KEY = '0b9e3a52-6f0c-4d7e-9a55-2f8c1d3e4b6a'
const NOW_MS = Date.now()
const MINUTE = Math.floor(NOW_MS / 60_000)
const subject = subjectOf(partitionOf('shop', 16))
const keyed = makeBatch({ appId: 'shop', key: KEY, receivedAtMs: NOW_MS, events: '[{"a":1},{"b":2},{"c":3}]' })
const plain = makeBatch({ appId: 'shop', receivedAtMs: NOW_MS })
const REDIS_URL = 'redis://127.0.0.1:1'

interface Answer {
  readonly complete: boolean
  readonly records: number
  readonly problems: { kind: string; at: number; detail: string; apps: unknown[] }[]
}

/** `cost`: of the header; null: none. */
interface Stored {
  readonly text: string
  readonly cost: string | null
  readonly id?: string
  readonly isSpooled?: boolean
}

async function verified(stored: readonly Stored[]): Promise<{ code: number | null; answer: Answer }> {
  const nats = await startNats()
  onTestFinished(() => nats.stop())
  await addStream(nats.url)
  await withConnection(nats.url, async (connection) => {
    for (const { text, cost, id, isSpooled } of stored) {
      const headers = createHeaders()
      if (cost !== null) headers.set('Sluice-Cost', cost)
      if (isSpooled === true) headers.set('Sluice-Spool', '1')
      // Not as JetStream's own id, which would keep the second one out.
      if (id !== undefined) headers.set('Nats-Msg-Id', id)
      await jetstream(connection).publish(subject, text, { headers })
    }
  })
  const { code, stdout } = await runCommand(['verify', '--json'], { REDIS_URL, NATS_URL: nats.url })
  return { code, answer: JSON.parse(stdout) as Answer }
}

const cost = (...events: number[]): string => `${MINUTE} ${MINUTE - 5} shop ${events.join(' ')}`

test('a stream that holds what it charges is well, with what settled a doubt in it', async () => {
  const { code, answer } = await verified([
    { text: plain.line + plain.line.replaceAll(plain.id, makeBatch({ receivedAtMs: NOW_MS }).id), cost: cost(1, 1) },
    { text: keyed.line, cost: cost(3), id: keyed.id },
    { text: '', cost: null, id: 'settled' },
  ])
  expect(answer).toMatchObject({ complete: true, records: 3, problems: [] })
  expect(code).toBe(0)
})

test('a batch under the next id of its key is well, and so is a key of hours ago that was used again after five minutes', async () => {
  const at = (agoS: number) => makeBatch({ appId: 'shop', key: KEY, receivedAtMs: NOW_MS - agoS * 1000 })
  const costOf = (agoS: number): string => `${Math.floor((NOW_MS - agoS * 1000) / 60_000)} ${MINUTE - 500} shop 1`
  const [first, second, third] = [7200, 6800, 6700]
  const { code, answer } = await verified([
    { text: at(first).line, cost: costOf(first), id: keyed.id, isSpooled: true },
    { text: at(second).line, cost: costOf(second), id: `${keyed.id}.2`, isSpooled: true },
  ])
  expect(answer).toMatchObject({ complete: true, records: 2, problems: [] })
  expect(code).toBe(0)
  const { answer: repeated } = await verified([
    { text: at(second).line, cost: costOf(second), id: keyed.id, isSpooled: true },
    { text: at(third).line, cost: costOf(third), id: `${keyed.id}.2`, isSpooled: true },
  ])
  expect(repeated.problems.map(({ kind, at: sequence }) => [kind, sequence])).toEqual([['repeated', 2]])
})

test('each kind of damage to a stream is named by its message, with the app', async () => {
  const { code, answer } = await verified([
    { text: keyed.line, cost: cost(3), id: keyed.id },
    { text: keyed.line, cost: cost(3) },
    { text: plain.line, cost: cost(2) },
    { text: plain.line, cost: null },
    { text: `${plain.line.slice(0, -5)}\n`, cost: cost(1) },
    { text: plain.line, cost: 'nothing' },
    {
      text:
        plain.line + keyed.line.replaceAll(keyed.id, makeBatch({ key: KEY, appId: 'other', receivedAtMs: NOW_MS }).id),
      cost: cost(1, 3),
    },
  ])
  expect(code).toBe(1)
  expect(answer.complete).toBe(true)
  const shop = (events: number) => [{ app_id: 'shop', batches: 1, events }]
  expect(answer.problems.map(({ kind, at, apps }) => ({ kind, at, apps }))).toEqual([
    { kind: 'repeated', at: 2, apps: shop(3) },
    { kind: 'repeated', at: 2, apps: shop(3) },
    { kind: 'cost', at: 3, apps: shop(1) },
    { kind: 'cost', at: 4, apps: shop(1) },
    { kind: 'record', at: 5, apps: [] },
    { kind: 'cost', at: 5, apps: [] },
    { kind: 'cost', at: 6, apps: shop(1) },
    { kind: 'repeated', at: 7, apps: shop(3) },
  ])
  expect(answer.problems[0].detail).toBe(`batch ${keyed.id} is stored again, 0 s after the first time`)
  expect(answer.problems[2].detail).toBe(
    'its header Sluice-Cost charges app shop 1 events more in a minute than it has',
  )
})

test('with a spool, its folder is read too', async () => {
  const nats = await startNats()
  onTestFinished(() => nats.stop())
  await addStream(nats.url)
  const folder = await makeFolder()
  await mkdir(join(folder, 'journal'))
  await writeFile(join(folder, 'journal', '000000000001.ndjson'), `${plain.line}hello\n`)
  const settings = { REDIS_URL, NATS_URL: nats.url, SLUICE_SPOOL_DIR: folder }
  const { code, stdout } = await runCommand(['verify', '--json'], settings)
  const { records, problems } = JSON.parse(stdout) as Answer
  expect({ code, records, kinds: problems.map(({ kind }) => kind) }).toEqual({
    code: 1,
    records: 1,
    kinds: ['record', 'record'],
  })
})

test('a batch that was sent on, and still lies in the spool, is there once; in the spool itself a key may be there again after five minutes', async () => {
  const nats = await startNats()
  onTestFinished(() => nats.stop())
  await addStream(nats.url)
  const headers = createHeaders()
  headers.set('Sluice-Cost', cost(3))
  headers.set('Nats-Msg-Id', keyed.id)
  await withConnection(nats.url, (connection) => jetstream(connection).publish(subject, keyed.line, { headers }))
  const spooled = (line: string): string => line.replace(/}\n$/, `,"spool":"${MINUTE} ${MINUTE - 5} plain"}\n`)
  const after = (seconds: number): string =>
    spooled(makeBatch({ appId: 'shop', key: KEY, receivedAtMs: NOW_MS + seconds * 1000 }).line)
  const folder = await makeFolder()
  await mkdir(join(folder, 'journal'))
  const verify = async (lines: string): Promise<Answer> => {
    await writeFile(join(folder, 'journal', '000000000001.ndjson'), lines)
    const { stdout } = await runCommand(['verify', '--json'], {
      REDIS_URL,
      NATS_URL: nats.url,
      SLUICE_SPOOL_DIR: folder,
    })
    return JSON.parse(stdout) as Answer
  }
  expect(await verify(spooled(keyed.line) + after(310))).toMatchObject({ records: 3, problems: [] })
  const { problems } = await verify(spooled(keyed.line) + after(290))
  expect(problems.map(({ kind, at }) => [kind, at])).toEqual([['repeated', spooled(keyed.line).length]])
})
