// Opens the app records of a node in a cluster: from a file where one is named, or from the bucket in NATS.

import type { AppStore } from '../apps/app.ts'
import { type BucketApps, type BucketAppsOptions, openBucketApps } from '../apps/bucket/bucket-apps.ts'
import type { Part } from '../health.ts'
import { systemTimers } from '../lib/timers.ts'
import { noticeTo } from '../observe/log.ts'
import { type AppsContext, openFileApps } from './opened-apps.ts'

/** Opens the file where one is configured, otherwise the bucket, whose records may arrive later. */
export async function openSharedApps(
  file: { readonly path: string | null; readonly isNamed: boolean },
  bucket: Pick<BucketAppsOptions, 'nats' | 'replicas' | 'judge'>,
  context: AppsContext,
): Promise<{ readonly store: AppStore; readonly bucket: BucketApps | null; readonly appsPart: () => Part }> {
  if (file.path !== null) {
    const store = await openFileApps(file.path, file.isNamed, context)
    return { store, bucket: null, appsPart: () => ({ part: 'apps', kind: 'file', ...store.status }) }
  }
  const { clock, log } = context
  const timers = { ...systemTimers, nowMs: clock }
  const store = openBucketApps({ ...bucket, timers, onNotice: noticeTo(log, 'apps') })
  return { store, bucket: store, appsPart: () => ({ part: 'apps', kind: 'bucket', ...store.status }) }
}
