// What is read of a spool before it is sent.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import { spoolLine } from '../../../../src/contract/record/spool-line.ts'
import { type DiskFile, type OpenMode, RealDisk } from '../../../../src/queue/journal/disk.ts'
import { openJournal } from '../../../../src/queue/journal/journal.ts'
import { ReadAhead } from '../../../../src/queue/spool/read-ahead.ts'
import { makeRecord, publish } from '../../../support/journal.ts'
import { makeFolder } from '../../../support/service.ts'

const START = { segment: 1, offset: 0 }

class CountingDisk extends RealDisk {
  readonly opened: string[] = []

  override async open(path: string, mode: OpenMode): Promise<DiskFile> {
    this.opened.push(path)
    return await super.open(path, mode)
  }
}

test('a segment is opened once for all that it holds, its checksums too, and little of it waits at a time', async () => {
  const journalDirectory = join(await makeFolder(), 'journal')
  const records = Array.from({ length: 8000 }, () => makeRecord({ fillBytes: 500 }))
  const journal = await openJournal({ directory: journalDirectory, maxBytes: 1024 ** 3, keepHours: null })
  for (let at = 0; at < records.length; at += 100) {
    const mark = { state: 'plain', messageId: null } as const
    const some = records.slice(at, at + 100)
    await Promise.all(some.map((one) => publish(journal, { ...one, line: spoolLine(one.line, one.charge, mark) })))
  }
  const until = journal.position()
  await journal.stop()
  const disk = new CountingDisk()
  const onDamage = (damage: unknown): void => {
    throw new Error(JSON.stringify(damage))
  }
  const parts = { journalDirectory, disk, onDamage, timers: { nowMs: Date.now } }
  const ahead = new ReadAhead(parts, START, START)
  const ids: string[] = []
  let most = 0
  for (;;) {
    while (ahead.isDue(until)) await ahead.read(until)
    const ready = ahead.in('waiting')
    if (ready.length === 0) break
    most = Math.max(most, ready.length)
    for (const item of ready.slice(0, 1000)) {
      ids.push(item.record.head.batchId)
      item.state = 'done'
    }
    ahead.takeDone()
  }
  expect(ids.join()).toBe(records.map(({ batchId }) => batchId).join())
  expect(most).toBeLessThan(records.length / 2)
  expect(disk.opened).toContain(join(journalDirectory, '000000000001.ndjson'))
  expect(new Set(disk.opened).size).toBe(disk.opened.length)
})
