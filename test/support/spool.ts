// A spool over a stream of a real server, or of none.

import { systemTimers } from '../../src/lib/timers.ts'
import { damageText } from '../../src/queue/journal/damage-text.ts'
import { RealDisk } from '../../src/queue/journal/disk.ts'
import type { Damage } from '../../src/queue/journal/segment-cursor.ts'
import { journalDirectory } from '../../src/queue/journal/segments.ts'
import { type OpenedSpool, openSpool, type SpoolOptions } from '../../src/queue/spool/open-spool.ts'
import { readSpool, type SpooledRecord } from '../../src/queue/spool/spool-records.ts'
import type { StreamPublisher } from '../../src/queue/stream/publisher.ts'
import type { PublisherOptions } from '../../src/queue/stream/publisher-options.ts'
import { openQueue } from './jetstream.ts'
import { eventually } from './service.ts'

export interface TestSpool extends OpenedSpool {
  readonly stream: StreamPublisher
  readonly notices: readonly string[]
  /** Ids of batches, as they were told. */
  readonly keys: readonly string[]
  /** Events by app: spooled and not sent yet. */
  readonly counted: Map<string, number>
}

/** With an address at which nobody answers, NATS is away. */
export const NOBODY = 'nats://127.0.0.1:1'

/** Of a spool with room, beside a Redis that was never away, whose callers learn nothing. */
export function spoolOptions(place: Pick<SpoolOptions, 'directory' | 'stream' | 'disk' | 'timers'>): SpoolOptions {
  return {
    ...place,
    maxBytes: 1024 ** 3,
    partitions: 16,
    syncMs: () => 0,
    isSyncShown: () => true,
    uncountedSinceMs: () => Number.POSITIVE_INFINITY,
    newId: 'abcdef012345',
    space: () => Promise.resolve({ freeBytes: 1024 ** 4, totalBytes: 1024 ** 4 }),
    onNamed: () => {},
    onFound: () => {},
    onSpooled: () => {},
    onSent: () => {},
    onLost: () => {},
    onKey: () => {},
    onDoubt: () => {},
    onNotice: () => {},
  }
}

export async function openTestSpool(
  directory: string,
  url: string,
  changes: Partial<SpoolOptions> = {},
  ofStream: Partial<PublisherOptions> = {},
): Promise<TestSpool> {
  const notices: string[] = []
  const keys: string[] = []
  const counted = new Map<string, number>()
  let opened: OpenedSpool | null = null
  const { queue: stream } = openQueue(url, {
    ackTimeoutMs: 500,
    onDoubt: (doubt, record) => opened?.spool.doubt(doubt, record),
    ...ofStream,
  })
  const count = (appId: string, events: number): void => void counted.set(appId, (counted.get(appId) ?? 0) + events)
  opened = await openSpool({
    ...spoolOptions({ directory, stream, disk: new RealDisk(0o600), timers: systemTimers }),
    onFound: (appId, { events }) => count(appId, events),
    onSpooled: (appId, { events }) => count(appId, events),
    onSent: (appId, { events }) => count(appId, -events),
    onKey: (batchId) => void keys.push(batchId),
    onNotice: (message) => void notices.push(message),
    ...changes,
  })
  return { ...opened, stream, notices, keys, counted }
}

/** Of a folder: what its journal holds, sent or not. */
export async function readSpoolPlainly(directory: string): Promise<SpooledRecord[]> {
  const records: SpooledRecord[] = []
  const range = {
    directory: journalDirectory(directory),
    from: { segment: 0, offset: 0 },
    until: null,
    disk: new RealDisk(),
    onDamage: (damage: Damage) => {
      throw new Error(damageText(damage))
    },
  }
  await readSpool(range, (record) => void records.push(record))
  return records
}

export async function untilSpoolIsEmpty({ spool }: Pick<TestSpool, 'spool'>): Promise<void> {
  await eventually('the spool is empty', () => spool.contents.batches === 0)
}
