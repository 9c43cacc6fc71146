// The spool of a node: takes its folder, and joins it to limits, log and metrics.

import { randomBytes } from 'node:crypto'
import { statfs } from 'node:fs/promises'
import type { Clock } from '../lib/clock.ts'
import { errorMessage, StartError } from '../lib/errors.ts'
import { acquireLock } from '../lib/lock.ts'
import type { OnNotice } from '../lib/notice.ts'
import { systemTimers } from '../lib/timers.ts'
import type { SharedAdmission } from '../limits/shared/shared-admission.ts'
import type { SpooledEvents } from '../limits/shared/spooled-events.ts'
import type { SpoolSample } from '../observe/gauges.ts'
import type { Fillers } from '../queue/filling.ts'
import { RealDisk } from '../queue/journal/disk.ts'
import type { DamageKind } from '../queue/journal/segment-cursor.ts'
import { foldersInUse, holdsOtherJournal, isSpoolOrEmpty, strandedSpools } from '../queue/spool/inspect-spool.ts'
import { contentsText, type OpenedSpool, openSpool } from '../queue/spool/open-spool.ts'
import type { StreamPublisher } from '../queue/stream/publisher.ts'
import type { Config } from '../settings/config.ts'
import { inUseText, takeOwnFolder } from './own-folder.ts'
import type { Started } from './started.ts'

const FOLDER_MODE = 0o700
const FILE_MODE = 0o600
const ID_BYTES = 6

/** Makes the folder of this process and locks it. Throws a StartError that says what to mend. */
export async function takeSpoolFolder(config: Config, started: Started, onNotice: OnNotice): Promise<string | null> {
  if (config.spool === null) return null
  const { directory } = config.spool
  await takeFolder(directory, onNotice)
  // Each worker process has a folder of its own.
  for (const folder of foldersInUse(directory, config.processes)) {
    if (folder !== directory) await takeFolder(folder, onNotice)
    const lock = await acquireLock(folder)
    if ('held' in lock) continue
    started.add(() => lock.release())
    if (await holdsOtherJournal(folder))
      throw new StartError(`SLUICE_SPOOL_DIR: ${folder} holds a journal that is no spool: name another folder`)
    return folder
  }
  throw new StartError(inUseText(directory, 'SLUICE_SPOOL_DIR'))
}

/** What is left where no process works any more, told by one process alone. It may be much, so that nobody should wait for it. */
export async function tellStranded(
  { spool, processes }: Pick<Config, 'spool' | 'processes'>,
  folder: string,
  onNotice: OnNotice,
): Promise<void> {
  if (spool === null || folder !== foldersInUse(spool.directory, processes)[0]) return
  try {
    for (const text of await strandedSpools(spool.directory, processes)) onNotice(text)
  } catch (error) {
    onNotice(`whether other folders in ${spool.directory} hold batches is not known: ${errorMessage(error)}`)
  }
}

async function takeFolder(directory: string, onNotice: OnNotice): Promise<void> {
  await takeOwnFolder({ setting: 'SLUICE_SPOOL_DIR', directory, mode: FOLDER_MODE, onNotice })
  if (!(await isSpoolOrEmpty(directory)))
    throw new StartError(`SLUICE_SPOOL_DIR: ${directory} holds other files, and is no spool: name another folder`)
}

/** To be called once the spool is stopped. */
export function tellLeft({ spool, directory }: Pick<SharedSpool, 'spool' | 'directory'>, onNotice: OnNotice): void {
  const { contents } = spool
  if (contents.batches === 0) return
  onNotice(
    `${contentsText(contents)}: not sent before the end of this process, and kept in ${directory}; the next one that starts with this folder sends them, or sluice spool drain: keep this disk`,
  )
}

export interface SharedSpool extends OpenedSpool {
  readonly directory: string
  readonly sample: () => SpoolSample
}

interface SpoolContext {
  readonly clock: Clock
  readonly fillers?: Fillers
  readonly onNotice: OnNotice
  readonly onCommit?: (records: number) => void
  readonly onDamage?: (kind: DamageKind) => void
}

interface SpoolUses {
  readonly stream: StreamPublisher
  readonly limits: Pick<SharedAdmission, 'countSpool' | 'restoreKey' | 'doubt'>
  readonly syncMs: () => number
  readonly isSyncShown: () => boolean
  /** What was sent is kept until the audit counts it. */
  readonly isAudited: boolean
}

export async function openSharedSpool(
  directory: string,
  maxBytes: number,
  { partitions }: Pick<Config, 'partitions'>,
  { clock, fillers, onNotice, onCommit, onDamage }: SpoolContext,
  { stream, limits, syncMs, isSyncShown, isAudited }: SpoolUses,
): Promise<SharedSpool> {
  let counts: SpooledEvents | null = null
  const opened = await openSpool({
    directory,
    maxBytes,
    partitions,
    stream,
    syncMs,
    isSyncShown,
    uncountedSinceMs: () => (isAudited && counts !== null ? counts.uncountedSinceMs : Number.POSITIVE_INFINITY),
    disk: new RealDisk(FILE_MODE),
    timers: { ...systemTimers, nowMs: clock },
    newId: randomBytes(ID_BYTES).toString('hex'),
    space: async (path) => {
      const { bavail, bsize, blocks } = await statfs(path)
      return { freeBytes: bavail * bsize, totalBytes: blocks * bsize }
    },
    onNamed: (id) => (counts = limits.countSpool(id)),
    onFound: (appId, charge) => counts?.add(appId, charge, true),
    onSpooled: (appId, charge) => counts?.add(appId, charge),
    onSent: (appId, charge, sequence) => counts?.sent(appId, charge, sequence),
    onLost: () => counts?.forgetSent(),
    onKey: (batchId, events, takenAtMs) => limits.restoreKey(batchId, events, takenAtMs),
    onDoubt: (doubt) => limits.doubt(doubt),
    ...(fillers === undefined ? {} : { fillers }),
    ...(onCommit === undefined ? {} : { onCommit }),
    ...(onDamage === undefined ? {} : { onDamage }),
    onNotice,
  })
  const named = counts as SpooledEvents | null
  named?.start()
  return {
    ...opened,
    directory,
    sample: () => {
      const { batches, bytes, oldestAtMs } = opened.spool.contents
      const oldestSeconds = oldestAtMs === null ? 0 : Math.max(0, (clock() - oldestAtMs) / 1000)
      return { batches, bytes, oldestSeconds, maxBytes: opened.maxBytes() }
    },
  }
}
