// The four stores that a request needs: apps, limits, keys and queue.

import type { App, AppDirectory } from '../apps/app.ts'
import type { Alert } from '../contract/alert.ts'
import type { Part } from '../contract/health.ts'
import type { AdminAddress } from '../lib/admin-address.ts'
import type { Clock, TurnClock } from '../lib/clock.ts'
import type { Admission } from '../limits/admission.ts'
import type { StoredBytes } from '../limits/stored-bytes.ts'
import type { Sampler } from '../observe/gauges.ts'
import type { Log } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { EventQueue } from '../queue/queue.ts'

export interface Stores {
  readonly apps: AppDirectory
  readonly admission: Admission
  /** Nodes that take events, as last seen. */
  readonly nodes: () => number
  readonly queue: EventQueue
  /** The alerts of one app, or of all (null), of the last 35 days; away: they cannot be read now. */
  readonly alerts: (appId: string | null) => Promise<readonly Alert[] | 'away'>
  /** The app that a first start made for trying things out; null: there is none. */
  readonly demoApp: App | null
  readonly gauges: Sampler
  /** True once everything shared has been reached at least once. */
  readonly isReady: () => boolean
  readonly parts: () => readonly Part[]
  /** Reads the app file again; absent: the records are in NATS, and come by themselves. */
  readonly reread?: () => void
}

export interface StoresContext {
  readonly log: Log
  readonly clock: Clock
  /** The same for what a request asks. */
  readonly turnClock: Pick<TurnClock, 'nowMs'>
  readonly metrics: Metrics
  readonly bytes: StoredBytes
  /** An alert was decided, and is stored or will be decided again. */
  readonly onAlert: (alert: Alert) => void
  /** Absent where another process has the admin port. */
  readonly adminAddress?: AdminAddress
  readonly snapshotIntervalMs?: number
}
