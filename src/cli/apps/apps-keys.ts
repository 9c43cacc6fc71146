// The times that commands about keys take, such as 30d, 12h or 0.

import { spanMsOf } from '../../records/app-keys.ts'
import { UsageError } from '../shell.ts'

export function overlapOf(text: string): number {
  const ms = spanMsOf(text)
  if (ms !== null) return ms
  throw new UsageError('--overlap: must be a number of days or hours, such as 30d or 12h, at most 3650d, or 0')
}

/** Of a read key. */
export function lifetimeOf(text: string): number {
  const ms = spanMsOf(text)
  if (ms !== null && ms > 0) return ms
  throw new UsageError('--expires: must be a number of days or hours, such as 90d or 12h, at most 3650d')
}
