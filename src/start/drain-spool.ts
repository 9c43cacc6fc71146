// Sends what is in a spool whose node is gone, for `sluice spool drain`.

import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { StartError } from '../lib/errors.ts'
import { acquireLock } from '../lib/lock.ts'
import type { OnNotice } from '../lib/notice.ts'
import { systemTimers } from '../lib/timers.ts'
import { SpooledEvents } from '../limits/shared/spooled-events.ts'
import { DurabilityWatch } from '../nats/durability-watch.ts'
import { keptMs } from '../queue/spool/cursor-keeper.ts'
import type { SpoolContents } from '../queue/spool/spool-log.ts'
import { keyedAlone } from '../queue/stream/keyed-group.ts'
import { openPublisher } from '../queue/stream/publisher.ts'
import { openRedis, untilUp } from '../redis/connection.ts'
import type { Config } from '../settings/config.ts'
import { openSharedSpool, type SharedSpool } from './shared-spool.ts'
import { Started } from './started.ts'

const LOOK_MS = 200
const TELL_MS = 2000
const REDIS_START_MS = 2000
const ID_BYTES = 6

interface DrainOptions {
  readonly directory: string
  readonly signal: AbortSignal
  /** What is left to send: every two seconds while it gets less. */
  readonly onProgress: (contents: SpoolContents) => void
  /** All is sent. It is kept for so long, unless NATS loses it. */
  readonly onSent: (waitMs: number) => void
  readonly onNotice: OnNotice
}

interface Left {
  readonly contents: SpoolContents
  readonly isEmpty: boolean
}

/** What is left: nothing to send and nothing to keep, unless `signal` ended it. Throws a StartError where the folder cannot be had, or NATS and Redis are not set. */
export async function drainSpool(config: Config, options: DrainOptions): Promise<Left> {
  const { directory, signal, onProgress, onSent } = options
  const started = new Started()
  try {
    const lock = await acquireLock(directory)
    if ('held' in lock)
      throw new StartError(`${directory} is in use: the process that works in this folder sends it itself`)
    started.add(() => lock.release())
    const { spool, keepMs } = await openAlone(config, options, started)
    let toldAtMs = performance.now()
    let toldBatches: number | null = null
    while (!spool.isEmpty && !signal.aborted) {
      await sleep(LOOK_MS)
      if (performance.now() - toldAtMs < TELL_MS) continue
      toldAtMs = performance.now()
      const { contents } = spool
      if (contents.batches === toldBatches) continue
      toldBatches = contents.batches
      if (contents.batches > 0) onProgress(contents)
      else onSent(keepMs())
    }
    return { contents: spool.contents, isEmpty: spool.isEmpty }
  } finally {
    await started.stop()
  }
}

async function openAlone(
  config: Config,
  { directory, onNotice }: DrainOptions,
  started: Started,
): Promise<SharedSpool & { readonly keepMs: () => number }> {
  const { redis: redisAccess, nats, partitions, stream: newStream, natsMonitorUrls: monitorUrls } = config
  if (redisAccess === null || nats === null) throw new StartError('set REDIS_URL and NATS_URL, as for the service')
  const nodeId = randomBytes(ID_BYTES).toString('hex')
  const redis = openRedis({ redis: redisAccess, onNotice })
  started.add(() => redis.stop())
  await untilUp(redis, REDIS_START_MS)
  const durability = new DurabilityWatch({ nats, monitorUrls, requireSync: false, onNotice })
  started.add(() => durability.stop())
  let counts: SpooledEvents | null = null
  started.add(() => counts?.stop())
  const stream = openPublisher({
    nats,
    nodeId,
    partitions,
    newStream,
    keyedAlone: () => keyedAlone(durability.syncMs),
    isSpooled: true,
    onNotice,
  })
  let spool: SharedSpool['spool'] | null = null
  // The spool stops its stream, where it was opened.
  started.add(() => spool?.stop() ?? stream.stop())
  const shared = await openSharedSpool(
    directory,
    Number.MAX_SAFE_INTEGER,
    config,
    { clock: Date.now, onNotice },
    {
      stream,
      syncMs: () => durability.syncMs,
      isSyncShown: () => true,
      // Perhaps no node runs that audits. The counts that this process leaves behind hold for longer than the audit takes.
      isAudited: false,
      limits: {
        restoreKey: () => {},
        doubt: () => {},
        countSpool: (spoolId) =>
          (counts = new SpooledEvents({
            link: redis,
            nodeId,
            spoolId,
            partitions,
            timers: systemTimers,
            onFault: (error) => onNotice(String(error)),
          })),
      },
    },
  )
  spool = shared.spool
  return { ...shared, keepMs: () => keptMs(durability.syncMs) }
}
