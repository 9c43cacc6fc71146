// A batch in the spool of this node is found until it is sent.

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readQuestion } from '../../../../src/queue/find/question.ts'
import { findInSpool } from '../../../../src/queue/spool/spool-search.ts'
import { type Batch, makeBatch } from '../../../support/batches.ts'
import { makeFolder } from '../../../support/service.ts'

const NOW = Date.parse('2026-11-20T12:00:00.000Z')
const HOUR_MS = 3_600_000

const KEY = '6f9619ff-8b86-4d11-b42d-00c04fc964ff'

async function makeSpool(folder: string, batches: readonly Batch[]): Promise<string[]> {
  const lines = batches.map(({ line }) => line.replace(/}\n$/, ',"spool":"29000000 28999000 plain"}\n'))
  await mkdir(join(folder, 'journal'), { recursive: true })
  await writeFile(join(folder, 'journal', '000000000001.ndjson'), lines.join(''))
  return lines
}

async function found(directory: string, id: string) {
  const reading = readQuestion({ id }, NOW)
  if (reading.kind === 'mistake') throw new Error(reading.mistake)
  return await findInSpool(directory, reading.question, {})
}

test('as it was accepted, in the folder of any worker process, and not when it was sent', async () => {
  const directory = await makeFolder()
  const [sent, unsent] = [makeBatch({ receivedAtMs: NOW - 2 * HOUR_MS }), makeBatch({ receivedAtMs: NOW - HOUR_MS })]
  const folder = join(directory, 'worker-2')
  const lines = await makeSpool(folder, [sent, unsent])
  // Without a cursor, none is known to be sent.
  expect(await found(directory, sent.id)).not.toBeNull()
  const position = { segment: 1, offset: lines[0].length }
  const cursor = { version: 1, id: 'abcdef012345', released: { segment: 0, offset: 0 }, sent: position }
  await writeFile(join(folder, 'cursor.json'), JSON.stringify({ ...cursor, reserved: position, witness: null }))
  expect(await found(directory, sent.id)).toBeNull()
  const finding = await found(directory, unsent.id)
  expect(finding?.record.line.toString()).toBe(unsent.line.trimEnd())
  expect(finding?.place).toMatchObject({ kind: 'spool', folder, offsetBytes: lines[0].length })
  expect(await found(directory, makeBatch({ receivedAtMs: NOW }).id)).toBeNull()
})

test.each([
  ['worker-1', 'worker-2'],
  ['worker-2', 'worker-1'],
])('of two batches with one key, the newer one, which is in %s', async (newer, older) => {
  const directory = await makeFolder()
  const [first, second] = [2, 1].map((hours) => makeBatch({ key: KEY, receivedAtMs: NOW - hours * HOUR_MS }))
  await makeSpool(join(directory, older), [first])
  await makeSpool(join(directory, newer), [second])
  expect((await found(directory, first.id))?.record.line.toString()).toBe(second.line.trimEnd())
})
