// Whether an app that is asked for exists, so that a mistyped id is refused rather than waited for.

import type { Clock } from '../../lib/clock.ts'
import { StartError } from '../../lib/errors.ts'
import { noSuchApp } from '../../records/app-draft.ts'
import { withAppRecords } from '../../records/app-records.ts'
import type { Config } from '../../settings/config.ts'

/** null: the app exists, or it cannot be known, since the records cannot be read or there are none. */
export async function unknownApp(config: Config, clock: Clock, appId: string): Promise<StartError | null> {
  try {
    const { records, complaints } = await withAppRecords(config, clock, (stored) => stored.list())
    const isKnown = records.some((record) => record.app_id === appId)
    // A record that cannot be used may be the app's.
    return isKnown || records.length === 0 || complaints.length > 0 ? null : noSuchApp(appId, records)
  } catch (error) {
    if (error instanceof StartError) return null
    throw error
  }
}
