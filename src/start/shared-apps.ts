// Opens the app records of a node in a cluster: from a file where one is named, or from the bucket in NATS.

import { join } from 'node:path'
import type { AppDirectory } from '../apps/app.ts'
import { type BucketApps, type BucketAppsOptions, openBucketApps } from '../apps/bucket/bucket-apps.ts'
import { KeptApps } from '../apps/bucket/kept-apps.ts'
import type { Part } from '../contract/health.ts'
import { systemTimers } from '../lib/timers.ts'
import { noticeTo } from '../observe/log.ts'
import { type AppsContext, openFileApps } from './opened-apps.ts'

export interface SharedApps {
  readonly store: AppDirectory
  readonly bucket: BucketApps | null
  /** There are records to judge requests by. */
  readonly isLoaded: () => boolean
  readonly appsPart: () => Part
  /** Absent where records come by themselves. */
  readonly reread?: () => void
}

/** Opens the file where one is configured, otherwise the bucket, whose records may arrive later. */
export async function openSharedApps(
  file: { readonly path: string | null; readonly isNamed: boolean },
  bucket: Pick<BucketAppsOptions, 'nats' | 'replicas' | 'judge'>,
  /** Where this node keeps what it read, for a start without NATS; null: nowhere. */
  keptIn: string | null,
  context: AppsContext,
): Promise<SharedApps> {
  if (file.path !== null) {
    const store = await openFileApps(file.path, file.isNamed, context)
    const appsPart = (): Part => ({ part: 'apps', kind: 'file', ...store.status })
    return { store, bucket: null, isLoaded: () => true, appsPart, reread: () => store.reread() }
  }
  const { clock, log } = context
  const timers = { ...systemTimers, nowMs: clock }
  const onNotice = noticeTo(log, 'apps')
  const opened = openBucketApps({ ...bucket, timers, onNotice })
  const path = keptIn === null ? null : join(keptIn, 'apps.ndjson')
  const store = path === null ? opened : await KeptApps.open({ bucket: opened, path, timers, onNotice })
  return {
    store,
    bucket: opened,
    isLoaded: () => store.isLoaded,
    appsPart: () => ({ part: 'apps', kind: 'bucket', ...store.status }),
  }
}
