// Looks for one batch in the spool of this node, while a process may work in it: one that is not known to be in the stream yet.

import { readRecord } from '../../contract/record/record-members.ts'
import { readSpoolLine } from '../../contract/record/spool-line.ts'
import type { Found, SearchOptions } from '../find/finding.ts'
import type { Question } from '../find/question.ts'
import { findInJournal } from '../journal/journal-search.ts'
import { comparePositions } from '../journal/segments.ts'
import { readProgress, spoolFolders } from './inspect-spool.ts'

/** The newest of that id. null: it is not there, or was sent. Rejects where a folder cannot be read. */
export async function findInSpool(
  directory: string,
  question: Question,
  options: SearchOptions,
): Promise<Found | null> {
  let newest: Found | null = null
  for (const folder of await spoolFolders(directory)) {
    const finding = await findInJournal(folder, question, options)
    if (finding.kind === 'not found' || finding.place.kind !== 'journal') continue
    const { segment, offsetBytes: offset } = finding.place
    // Read behind the search, so that what is sent meanwhile is looked for in the stream.
    const { sent } = await readProgress(folder)
    if (comparePositions({ segment: Number.parseInt(segment, 10), offset }, sent) < 0) continue
    const line = readSpoolLine(finding.record.line)?.line.subarray(0, -1)
    const record = line === undefined ? null : readRecord(line)
    if (record === null || record.receivedAt <= (newest?.record.receivedAt ?? '')) continue
    newest = { ...finding, record, place: { ...finding.place, kind: 'spool', folder } }
  }
  return newest
}
