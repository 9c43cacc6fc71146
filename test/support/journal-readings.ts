// What recovery, tail and find each read of the journal in a data folder, damaged or not.

import { open } from 'node:fs/promises'
import { readQuestion } from '../../src/queue/find/question.ts'
import { readLines } from '../../src/queue/journal/journal-reader.ts'
import { findInJournal } from '../../src/queue/journal/journal-search.ts'
import { readRecords } from '../../src/queue/journal/recovery.ts'
import type { Damage } from '../../src/queue/journal/segment-cursor.ts'
import { journalDirectory } from '../../src/queue/journal/segments.ts'

export async function recovered(folder: string): Promise<{ ids: string[]; damages: Damage[] }> {
  const ids: string[] = []
  const damages: Damage[] = []
  await readRecords(
    journalDirectory(folder),
    null,
    ({ batchId }) => ids.push(batchId),
    (damage) => damages.push(damage),
  )
  return { ids, damages }
}

export async function tailed(folder: string): Promise<{ lines: string[]; damages: Damage[] }> {
  const lines: string[] = []
  const damages: Damage[] = []
  const { signal } = new AbortController()
  const onDamage = (damage: Damage): void => void damages.push(damage)
  for await (const line of readLines(journalDirectory(folder), { fromStart: true, follow: false, signal, onDamage }))
    lines.push(line.toString())
  return { lines, damages }
}

export async function searched(folder: string, id: string): Promise<{ isFound: boolean; damages: Damage[] }> {
  const reading = readQuestion({ id }, Date.parse('2027-02-01T00:00:00Z'))
  if (reading.kind !== 'question') throw new Error(reading.mistake)
  const damages: Damage[] = []
  // The ids of version 7 in these tests tell no time.
  const question = { ...reading.question, madeAtMs: null, spans: [{ fromMs: -Infinity, beforeMs: Infinity }] }
  const finding = await findInJournal(folder, question, { onDamage: (damage) => damages.push(damage) })
  return { isFound: finding.kind === 'found', damages }
}

export async function flip(path: string, at: number, bit: number): Promise<void> {
  const file = await open(path, 'r+')
  const byte = Buffer.alloc(1)
  await file.read(byte, 0, 1, at)
  byte[0] ^= 1 << bit
  await file.write(byte, 0, 1, at)
  await file.close()
}
