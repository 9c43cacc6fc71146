// `sluice check` names each folder of a spool that no process works in any more.

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { spoolFindings } from '../../../../src/cli/check/check-spool.ts'
import { spoolLine } from '../../../../src/contract/record/spool-line.ts'
import { makeRecord } from '../../../support/journal.ts'
import { makeFolder } from '../../../support/service.ts'
import { mountSmall } from '../../../support/small-disk.ts'

async function fill(folder: string, isSent = false): Promise<void> {
  const { line, charge } = makeRecord()
  const bytes = Buffer.from(spoolLine(line, charge, { state: 'plain', messageId: null }))
  await mkdir(join(folder, 'journal'), { recursive: true })
  await writeFile(join(folder, 'journal', '000000000001.ndjson'), bytes)
  if (!isSent) return
  const sent = { segment: 1, offset: bytes.length }
  const cursor = { version: 1, id: 'abcdef012345', released: sent, sent, reserved: sent, witness: null }
  await writeFile(join(folder, 'cursor.json'), JSON.stringify(cursor))
}

async function stranded(directory: string, processes: number): Promise<string[]> {
  const findings = await spoolFindings({ spool: { directory, maxBytes: 1024 ** 3 }, processes })
  return findings
    .filter(({ detail }) => detail.includes('nobody sends'))
    .map(({ detail }) => detail.split(': ').at(-1)!)
}

test('where there are fewer processes, or more than one for the first time', async () => {
  const directory = await makeFolder()
  for (const worker of [1, 2, 3]) await fill(join(directory, `worker-${worker}`))
  await fill(join(directory, 'worker-4'), true)
  expect(await stranded(directory, 4)).toEqual([])
  expect(await stranded(directory, 2)).toEqual([`sluice spool drain ${join(directory, 'worker-3')}`])
  expect(await stranded(directory, 1)).toHaveLength(3)
  await fill(directory)
  expect(await stranded(directory, 4)).toEqual([`sluice spool drain ${directory}`])
  expect(await stranded(directory, 1)).toHaveLength(3)
})

test('the room of each folder that a process works in', async () => {
  const directory = await makeFolder()
  await fill(join(directory, 'worker-2'))
  const findings = await spoolFindings({ spool: { directory, maxBytes: 1024 ** 3 }, processes: 2 })
  expect(findings.map(({ detail }) => detail.split(': ')[0])).toEqual(
    ['worker-1', 'worker-2'].map((name) => join(directory, name)),
  )
})

test('a file in the place of the folder for its journal', async () => {
  const directory = await makeFolder()
  await writeFile(join(directory, 'journal'), '')
  expect(await spoolFindings({ spool: { directory, maxBytes: 1024 ** 3 }, processes: 1 })).toContainEqual(
    expect.objectContaining({ state: 'FAIL', detail: `${join(directory, 'journal')} is not a folder` }),
  )
})

test('a disk without the room that a spool leaves free', async ({ skip }) => {
  const directory = mountSmall('1m', skip)
  expect(await spoolFindings({ spool: { directory, maxBytes: 1024 ** 3 }, processes: 1 })).toEqual([
    expect.objectContaining({ state: 'FAIL', detail: expect.stringMatching(/full: .* 503: make room on its disk$/) }),
  ])
})
