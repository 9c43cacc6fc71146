// The refusals of this process, live, for those who watch.

import type { RefusalFilter } from '../../contract/admin/peers.ts'
import type { Timers } from '../../lib/timers.ts'
import { LiveItems } from '../live/live-items.ts'
import { type LiveKind, reportSkipped } from '../live/live-list.ts'
import type { OwnRefusal } from './refusal.ts'
import { fitsRefusal, shownRefusal } from './refusal-view.ts'

const MAX_REFUSALS_PER_SECOND = 200

export const REFUSALS: LiveKind = { name: 'refusal', mostPerSecond: MAX_REFUSALS_PER_SECOND, report: reportSkipped }

/** What this process refuses. */
export interface RefusalOutlet {
  onRefused: ((refusal: OwnRefusal) => void) | null
}

export class LiveRefusals extends LiveItems<RefusalFilter, OwnRefusal> {
  constructor(outlet: RefusalOutlet, { node, timers }: { node: string; timers: Timers }) {
    super({
      mostPerSecond: MAX_REFUSALS_PER_SECOND,
      fits: fitsRefusal,
      shown: (refusal) => JSON.stringify(shownRefusal(refusal, node)),
      onWatched: (offer) => {
        outlet.onRefused = offer
      },
      timers,
    })
  }
}
