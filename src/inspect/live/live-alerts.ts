// Alerts as this process decides them, live, for those who watch.

import type { AlertFilter } from '../../contract/admin/peers.ts'
import type { Alert } from '../../contract/alert.ts'
import type { Timers } from '../../lib/timers.ts'
import { LiveItems } from './live-items.ts'
import { type LiveKind, reportSkipped } from './live-list.ts'

const MAX_ALERTS_PER_SECOND = 200

export const ALERTS: LiveKind = {
  name: 'alert',
  mostPerSecond: MAX_ALERTS_PER_SECOND,
  report: reportSkipped,
  idOf: (json) => (JSON.parse(json) as Alert).id,
}

/** What this process decides. */
export class LiveAlerts extends LiveItems<AlertFilter, Alert> {
  /** An alert is stored. */
  readonly tell: (alert: Alert) => void

  constructor(timers: Timers) {
    let offer: ((alert: Alert) => void) | null = null
    super({
      mostPerSecond: MAX_ALERTS_PER_SECOND,
      fits: ({ app }, { app_id: appId }) => app === null || app === appId,
      shown: (alert) => JSON.stringify(alert),
      onWatched: (next) => {
        offer = next
      },
      timers,
    })
    this.tell = (alert) => offer?.(alert)
  }
}
