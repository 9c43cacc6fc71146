// What a node refuses and the alerts that it decides, live, for those who watch.

import type { AlertFilter, Live, RefusalFilter } from '../../contract/admin/peers.ts'
import type { Alert } from '../../contract/alert.ts'
import type { Timers } from '../../lib/timers.ts'
import type { OwnRefusal } from '../refusals/refusal.ts'
import { fitsRefusal, shownRefusal } from '../refusals/refusal-view.ts'
import type { Refusals } from '../refusals/refusals.ts'
import { KINDS } from './live-list.ts'
import { Taps } from './taps.ts'

interface ItemTapsOptions<Filter, Item> {
  readonly kind: Live['kind']
  readonly fits: (filter: Filter, item: Item) => boolean
  /** As JSON on one line. */
  readonly shown: (item: Item) => string
  /** `offer`: where items go from now on; null: nobody watches. */
  readonly onWatched: (offer: ((item: Item) => void) | null) => void
  readonly timers: Timers
}

/** Of items that come one after the other. */
function itemTaps<Filter extends { readonly portal?: true }, Item>(
  options: ItemTapsOptions<Filter, Item>,
): Taps<Filter, null> {
  const { kind, fits, shown, onWatched, timers } = options
  // Further ones are counted: in an overload there are thousands.
  const { mostPerSecond } = KINDS[kind]
  const offer = (item: Item): void => {
    let json: string | null = null
    for (const tap of taps.all) {
      if (!fits(tap.filter, item)) continue
      tap.counts.seen += 1
      if (tap.counts.shown >= mostPerSecond) continue
      tap.counts.shown += 1
      taps.keep(tap, (json ??= shown(item)))
    }
  }
  const taps = new Taps<Filter, null>({
    moreOf: () => null,
    onWatched: (isWatched) => onWatched(isWatched ? offer : null),
    timers,
  })
  return taps
}

/** What this process refuses. */
export function refusalTaps(refusals: Pick<Refusals, 'onRefused'>, { node, timers }: { node: string; timers: Timers }) {
  return itemTaps<RefusalFilter, OwnRefusal>({
    kind: 'refusals',
    fits: fitsRefusal,
    shown: (refusal) => JSON.stringify(shownRefusal(refusal, node)),
    onWatched: (offer) => {
      refusals.onRefused = offer
    },
    timers,
  })
}

/** `tell`: an alert is stored. */
export function alertTaps(timers: Timers) {
  let tell: ((alert: Alert) => void) | null = null
  const taps = itemTaps<AlertFilter, Alert>({
    kind: 'alerts',
    fits: ({ app }, { app_id: appId }) => app === null || app === appId,
    shown: (alert) => JSON.stringify(alert),
    onWatched: (offer) => {
      tell = offer
    },
    timers,
  })
  return { taps, tell: (alert: Alert): void => tell?.(alert) }
}
