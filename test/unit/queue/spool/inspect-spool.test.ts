// What is said of a spool's folder from outside, where files of it were removed.

import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { spoolLine } from '../../../../src/contract/record/spool-line.ts'
import { Verification } from '../../../../src/inspect/verify/verification.ts'
import { verifySpool } from '../../../../src/inspect/verify/verify-journal.ts'
import { readQuestion } from '../../../../src/queue/find/question.ts'
import { openJournal } from '../../../../src/queue/journal/journal.ts'
import { damagedDirectory, journalDirectory, segmentPath } from '../../../../src/queue/journal/segments.ts'
import { inspectSpool } from '../../../../src/queue/spool/inspect-spool.ts'
import { findInSpool } from '../../../../src/queue/spool/spool-search.ts'
import { makeRecord, publish, timersWithoutIntervals } from '../../../support/journal.ts'
import { makeFolder } from '../../../support/service.ts'

async function writeCursorAt(folder: string, segment: number): Promise<void> {
  const released = { segment, offset: 0 }
  const cursor = { version: 1, id: 'abcdef012345', released, sent: released, reserved: released, witness: null }
  await writeFile(join(folder, 'cursor.json'), JSON.stringify(cursor))
}

/** Of two segments, of a batch each; the first is released. */
async function spoolOfTwo(): Promise<string> {
  const folder = await makeFolder()
  await writeCursorAt(folder, 2)
  const journal = await openJournal({
    directory: journalDirectory(folder),
    maxBytes: 1e9,
    segmentBytes: 200,
    keepHours: null,
    timers: timersWithoutIntervals,
  })
  for (let batch = 0; batch < 2; batch += 1) {
    const { line, charge, ...record } = makeRecord()
    const spooled = Buffer.from(spoolLine(line, charge, { state: 'plain', messageId: null }))
    expect(await publish(journal, { ...record, charge, line: spooled })).toBe('durable')
  }
  await journal.stop()
  return folder
}

async function said(folder: string) {
  const found = new Verification()
  await verifySpool(folder, found, { signal: AbortSignal.any([]), onProgress: () => {} })
  const met: string[] = []
  const reading = readQuestion({ id: makeRecord().batchId, since: '2020-01-01T00:00:00Z' }, Date.now())
  if (reading.kind !== 'question') throw new Error(reading.mistake)
  await findInSpool(folder, reading.question, { onDamage: ({ path }) => met.push(path) })
  const { isDamaged, unsent } = await inspectSpool(folder)
  return { problems: found.problems.map(({ detail }) => detail), met, isDamaged, batches: unsent.batches }
}

test('a segment with unsent batches that another program removed is no empty spool', async () => {
  const folder = await spoolOfTwo()
  expect(await said(folder)).toEqual({ problems: [], met: [], isDamaged: false, batches: 1 })
  const path = segmentPath(journalDirectory(folder), 2)
  await rm(path)
  const problem = expect.stringContaining(`${path} was removed, or cut to nothing: its `)
  const missing = { problems: [problem], met: [path], isDamaged: true, batches: 0 }
  expect(await said(folder)).toEqual(missing)
  // What came behind it was sent.
  await writeCursorAt(folder, 3)
  expect(await said(folder)).toEqual(missing)
})

test('a damaged segment on its way out, whose process died, is not taken for one that was removed', async () => {
  const folder = await spoolOfTwo()
  await mkdir(damagedDirectory(folder), { recursive: true })
  await rename(segmentPath(journalDirectory(folder), 1), segmentPath(damagedDirectory(folder), 1))
  const { problems, met } = await said(folder)
  expect([problems, met]).toEqual([[], []])
})
