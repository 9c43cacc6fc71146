// A client over a double of the service, with a clock and timers that the test moves.

import { createClientOn } from '../../../clients/typescript/src/client.ts'
import type { Page, Platform } from '../../../clients/typescript/src/platform.ts'
import type {
  Client,
  DropReason,
  Options,
  SluiceEvent,
  Store,
  SyncStore,
} from '../../../clients/typescript/src/types.ts'
import { ManualTimers } from '../../support/timers.ts'
import { createDouble, type Double, type DoubleOptions } from './double.ts'

const START_MS = Date.parse('2026-11-20T12:00:00.000Z')

/** Manual timers that begin at a real date. */
export class DatedTimers extends ManualTimers {
  startMs = START_MS

  override nowMs(): number {
    return this.startMs + super.nowMs()
  }
}

export interface Rig {
  readonly client: Client
  readonly timers: DatedTimers
  readonly double: Double
  readonly store: SyncStore
  readonly platform: Platform
  /** Ids of all events, in order. */
  readonly tracked: string[]
  readonly dropped: { readonly reason: DropReason; readonly names: string[]; readonly ids: string[] }[]
}

export interface RigOptions extends Partial<Options> {
  readonly timers?: DatedTimers
  readonly double?: Double
  readonly service?: Partial<DoubleOptions>
  readonly random?: () => number
  readonly page?: Page
  /** In memory alone. */
  readonly withoutStore?: boolean
}

/** A store that lasts as long as the test, of at most so many characters. */
export function mapStore(map = new Map<string, string>(), maxCharacters = Infinity): SyncStore {
  const size = (): number => [...map.values()].reduce((sum, value) => sum + value.length, 0)
  return {
    keys: () => [...map.keys()],
    get: (name) => map.get(name) ?? null,
    set(name, value) {
      if (size() - (map.get(name)?.length ?? 0) + value.length > maxCharacters) return false
      map.set(name, value)
      return true
    },
    remove: (name) => void map.delete(name),
  }
}

export function createRig(options: RigOptions = {}): Rig {
  const { timers = new DatedTimers(), random = () => 0.5, page = null, withoutStore = false, ...rest } = options
  const { double = createDouble({ nowMs: () => timers.nowMs(), ...rest.service }), ...given } = rest
  const store: Store = rest.store ?? mapStore()
  const tracked: string[] = []
  const dropped: Rig['dropped'] = []
  const platform: Platform = {
    timers,
    random,
    fetch: double.fetch,
    // A real one takes turns of the event loop for which manual timers do not wait.
    compress: async () => null,
    context: { os: 'linux' },
    page,
    storage: null,
  }
  const client = createClientOn(platform, {
    url: 'https://events.example.com',
    appKey: 'ak_demo',
    ...(withoutStore ? {} : { store }),
    ...given,
    beforeSend: (event: SluiceEvent) => {
      tracked.push(event.event_id)
      return given.beforeSend ? given.beforeSend(event) : event
    },
    onDropped: (reason, events) => {
      dropped.push({ reason, names: events.map((event) => event.name), ids: events.map((event) => event.event_id) })
      given.onDropped?.(reason, events)
    },
  })
  return { client, timers, double, store: store as SyncStore, platform, tracked, dropped }
}

export function trackMany(client: Client, count: number, properties?: Record<string, unknown>): void {
  for (let index = 0; index < count; index++) client.track(`event ${index}`, properties)
}

/** Names of the stored batches in the store, oldest first. */
export function waiting(store: SyncStore): string[] {
  return store
    .keys()
    .filter((name) => name.startsWith('b'))
    .toSorted()
}
