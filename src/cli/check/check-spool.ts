// The lines of `sluice check` about the spool of a node: its folder, the room in it, and what nobody sends.

import { statfs } from 'node:fs/promises'
import { resolve } from 'node:path'
import { errorMessage } from '../../lib/errors.ts'
import { nearestFolder } from '../../lib/folder.ts'
import { LARGEST_COMMIT_BYTES } from '../../queue/journal/journal-filling.ts'
import { journalDirectory, listSegments } from '../../queue/journal/segments.ts'
import { foldersInUse, strandedSpools } from '../../queue/spool/inspect-spool.ts'
import { SPOOL_ADVICE, spoolFloorBytes } from '../../queue/spool/open-spool.ts'
import type { Config } from '../../settings/config.ts'
import { formatBytes } from '../table.ts'
import { writeProblem } from './check-machine.ts'
import { type Finding, finding, NEARLY_FULL_SHARE } from './finding.ts'

type SpoolConfig = NonNullable<Config['spool']>

export async function spoolFindings({ spool, processes }: Pick<Config, 'spool' | 'processes'>): Promise<Finding[]> {
  if (spool === null) return []
  const findings: Finding[] = []
  for (const directory of foldersInUse(spool.directory, processes))
    findings.push(await folderFinding({ ...spool, directory }))
  try {
    const stranded = await strandedSpools(spool.directory, processes)
    return [...findings, ...stranded.map((text) => finding('spool', 'warn', text))]
  } catch (error) {
    return [...findings, finding('spool', 'FAIL', errorMessage(error))]
  }
}

async function folderFinding(spool: SpoolConfig): Promise<Finding> {
  const directory = resolve(spool.directory)
  const problem = (await writeProblem(directory)) ?? (await writeProblem(journalDirectory(directory)))
  if (problem !== null) return finding('spool', 'FAIL', problem)
  const bytes = (await listSegments(journalDirectory(directory))).reduce((sum, segment) => sum + segment.bytes, 0)
  const { bavail, bsize, blocks } = await statfs(nearestFolder(directory))
  const freeBytes = Math.max(0, bavail * bsize - spoolFloorBytes(blocks * bsize))
  const roomBytes = Math.min(spool.maxBytes - bytes, freeBytes)
  const detail = `${spool.directory}: ${formatBytes(bytes)} of at most ${formatBytes(spool.maxBytes)}, room on the disk: ${formatBytes(freeBytes)}`
  const advice = roomBytes === freeBytes ? 'make room on its disk' : SPOOL_ADVICE
  if (roomBytes < LARGEST_COMMIT_BYTES)
    return finding('spool', 'FAIL', `${detail}; full: what NATS does not take is answered 503: ${advice}`)
  if (bytes >= NEARLY_FULL_SHARE * (bytes + roomBytes))
    return finding('spool', 'warn', `${detail}; nearly full: ${advice}`)
  return finding('spool', 'ok', detail)
}
