// The four stores that a request needs: apps, limits, keys and queue.

import type { App, AppStore } from '../apps/app.ts'
import type { Part } from '../health.ts'
import type { AdminAddress } from '../lib/admin-address.ts'
import type { Clock } from '../lib/clock.ts'
import type { Admission } from '../limits/admission.ts'
import type { Sampler } from '../observe/gauges.ts'
import type { Log } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { EventQueue } from '../queue/queue.ts'

export interface Stores {
  readonly apps: AppStore
  readonly admission: Admission
  readonly queue: EventQueue
  /** The app that a first start made for trying things out; null: there is none. */
  readonly demoApp: App | null
  readonly gauges: Sampler
  /** True once everything shared has been reached at least once. */
  readonly isReady: () => boolean
  readonly parts: () => readonly Part[]
}

export interface StoresContext {
  readonly log: Log
  readonly clock: Clock
  readonly metrics: Metrics
  /** Absent where another process has the admin port. */
  readonly adminAddress?: AdminAddress
  readonly snapshotIntervalMs?: number
}
