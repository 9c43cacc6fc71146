// The alerts of one machine: decided twice a minute from what is durable, and kept in the snapshot. What a crash loses of
// them is decided again after it, under the same ids.

import type { AppDirectory } from '../../apps/app.ts'
import { ALERTS_KEPT_MS, type Alert, joinAlerts, parseAlerts } from '../../contract/alert.ts'
import { errorMessage } from '../../lib/errors.ts'
import type { OnNotice } from '../../lib/notice.ts'
import { slices } from '../../lib/slices.ts'
import type { Timer, Timers } from '../../lib/timers.ts'
import { decideAlerts, isStanding, isWorthKeeping, type StandingAlerts } from '../alerts.ts'
import type { MemoryLimiter } from './memory-limiter.ts'

const INTERVAL_MS = 30_000
/** Looked at in one turn of the event loop. */
const SLICE_APPS = 200

/** Its part of a snapshot. */
export interface AlertsDump {
  readonly apps: readonly { readonly appId: string; readonly standing: StandingAlerts; readonly alerts: string }[]
}

export interface OwnAlertsOptions {
  readonly limiter: Pick<MemoryLimiter, 'sums' | 'appIds'>
  readonly apps: Pick<AppDirectory, 'findById'>
  readonly timers: Timers
  readonly onAlert: (alert: Alert) => void
  readonly onNotice: OnNotice
  /** What `dump` has returned; null: nothing. */
  readonly dumped: unknown
}

interface Known {
  standing: StandingAlerts
  alerts: readonly Alert[]
}

export class OwnAlerts {
  readonly #options: OwnAlertsOptions
  readonly #known = new Map<string, Known>()
  readonly #timer: Timer
  #isDeciding = false

  constructor(options: OwnAlertsOptions) {
    this.#options = options
    this.#restore(options.dumped)
    this.#timer = options.timers.setInterval(() => {
      if (this.#isDeciding) return
      this.#decideAll().catch((error: unknown) => {
        options.onNotice(`alerts could not be decided; they are tried again in half a minute: ${errorMessage(error)}`)
      })
    }, INTERVAL_MS)
    this.#timer.unref()
  }

  /** Of one app, or of all (null); oldest first. */
  read(appId: string | null): readonly Alert[] {
    if (appId !== null) return this.#known.get(appId)?.alerts ?? []
    return [...this.#known.values()].flatMap(({ alerts }) => alerts)
  }

  dump(): AlertsDump {
    const apps = Array.from(this.#known, ([appId, { standing, alerts }]) => ({
      appId,
      standing,
      alerts: JSON.stringify(alerts),
    }))
    return { apps }
  }

  stop(): void {
    this.#options.timers.clear(this.#timer)
  }

  async #decideAll(): Promise<void> {
    const { limiter, timers } = this.#options
    this.#isDeciding = true
    try {
      for await (const appIds of slices(limiter.appIds(), SLICE_APPS, timers)) {
        for (const appId of appIds) this.#decide(appId)
      }
      this.#forgetOld(timers.nowMs() - ALERTS_KEPT_MS)
    } finally {
      this.#isDeciding = false
    }
  }

  /** Of apps that the limiter has forgotten, or that were removed. */
  #forgetOld(oldestMs: number): void {
    const oldest = new Date(oldestMs).toISOString()
    for (const [appId, known] of this.#known) {
      if (known.alerts.length > 0 && known.alerts[0].at < oldest)
        known.alerts = known.alerts.filter(({ at }) => at >= oldest)
      const { day, month } = known.standing
      if (known.alerts.length === 0 && Math.max(day.endMs, month.endMs) < oldestMs) this.#known.delete(appId)
    }
  }

  #decide(appId: string): void {
    const { limiter, apps, timers, onAlert } = this.#options
    const app = apps.findById(appId)
    // No alert is raised for an app that was removed; what stands stays, in case it comes back.
    if (typeof app === 'string') return
    const known = this.#known.get(appId)
    const sums = limiter.sums(app, timers.nowMs())
    const { standing, alerts } = decideAlerts(appId, app, known?.standing ?? null, sums)
    const all = known === undefined && alerts.length === 0 ? [] : joinAlerts(known?.alerts ?? [], alerts, sums.nowMs)
    if (all.length > 0 || isWorthKeeping(standing)) this.#known.set(appId, { standing, alerts: all })
    else this.#known.delete(appId)
    for (const alert of alerts) onAlert(alert)
  }

  #restore(dumped: unknown): void {
    const { apps = [] } = Object(dumped) as Partial<AlertsDump>
    for (const { appId, standing, alerts } of Array.isArray(apps) ? (apps as AlertsDump['apps']) : []) {
      if (isStanding(standing)) this.#known.set(appId, { standing, alerts: parseAlerts(alerts) })
    }
  }
}
