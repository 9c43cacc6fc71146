// The batches that wait, oldest first, and the count of what was dropped. One item of the store holds a batch, or what
// a refusal made of it: an item changes in one write, so that a crash neither loses nor doubles an event.

import type { Replacement } from './answer.ts'
import type { Clock } from './clock.ts'
import { attempt, bounded, bytesOf, listJson, type Timers, uuid } from './platform.ts'
import { readJson, type SpillingStore } from './store.ts'
import type { DropReason, HeldReason, Options, SluiceEvent } from './types.ts'

const VERSION = 'sluice-client/0.4.0'
/** The service takes no older events. */
const LIFE_MS = 72 * 3_600_000
const DEFAULT_MAX_BYTES = 2_000_000
/** b, when it was sealed, its bytes, who sealed it: sorted by age. */
const NAME = /^b(\d+)-(\d+)-/

/** The bytes that are sent at every try, and the key under which they are. */
export interface Batch {
  readonly key: string
  readonly body: string
  /** When it was given to the browser to send while the page ended, its answer unseen. */
  readonly handedMs?: number
}

type Report = Partial<Record<DropReason, number>>
type Contents = { readonly events: readonly SluiceEvent[]; readonly report: Report }
type Body = { events?: SluiceEvent[]; client_report?: { dropped?: Report } }

export type Queue = ReturnType<typeof createQueue>

export function createQueue(store: SpillingStore, timers: Timers, clock: Clock, options: Options) {
  const { appKey, onDropped, onHeld } = options
  const maxBytes = bounded(options.maxQueueBytes, 0, Infinity, DEFAULT_MAX_BYTES)
  /** Items that this client is sending. */
  const busy = new Set<string>()
  const id = uuid()
  let lastMs = 0

  const sizeOf = (name: string): number => Number(NAME.exec(name)?.[2])
  const names = (): string[] =>
    store
      .keys()
      .filter((name) => NAME.test(name))
      .sort()
  const isBatch = (batch: Batch | null): batch is Batch => typeof batch?.body === 'string'
  const read = (name: string): Batch[] => [readJson<(Batch | null)[]>(store, name, [])].flat().filter(isBatch)

  function seal(key: string, events: readonly SluiceEvent[], dropped: Report): Batch {
    const report = Object.keys(dropped).length > 0 ? { client_report: { dropped } } : {}
    const head = JSON.stringify({ app_key: appKey, sdk_version: VERSION, ...report })
    return { key, body: `${head.slice(0, -1)},"events":${listJson(events.map(clock.correct))}}` }
  }

  function count(report: Report): void {
    const dropped: Report = readJson(store, 'dropped', {})
    for (const [reason, more] of Object.entries(report) as [DropReason, number][])
      dropped[reason] = (Number(dropped[reason]) || 0) + more
    store.set('dropped', JSON.stringify(dropped))
  }

  function drop(reason: DropReason, events: readonly SluiceEvent[]): void {
    if (events.length === 0) return
    count({ [reason]: events.length })
    // What the hook throws must not stop the sending.
    attempt(() => onDropped?.(reason, events))
  }

  /** Tells the app of a batch that stays in the queue. */
  function hold(reason: HeldReason, events: readonly SluiceEvent[]): void {
    attempt(() => onHeld?.(reason, events))
  }

  /** Removes it, and returns what reports it. */
  function takeItem(name: string): (reason: DropReason) => void {
    const batches = read(name).map(unseal)
    store.remove(name)
    return (reason) => {
      for (const { events, report } of batches) {
        count(report)
        drop(reason, events)
      }
    }
  }

  function dropOldest(): void {
    const waiting = names()
    let bytes = waiting.reduce((sum, name) => sum + sizeOf(name), 0)
    for (const name of waiting.slice(0, -1).filter((item) => !busy.has(item))) {
      if (bytes <= maxBytes) return
      bytes -= sizeOf(name)
      takeItem(name)('overflow')
    }
  }

  /** Puts others in the place of a batch, where it is still there. */
  function replace(name: string, batch: Batch, others: readonly Batch[]): boolean {
    const [first, ...rest] = read(name)
    if (first?.key !== batch.key) return false
    const batches = [...others, ...rest]
    if (batches.length === 0) store.remove(name)
    else store.set(name, listJson(batches))
    return true
  }

  return {
    busy,
    /** Sealed by this client: no two of its batches have one time. */
    isOwn: (name: string): boolean => name.endsWith(id),
    isExpired: (name: string): boolean => Number(NAME.exec(name)?.[1]) <= timers.nowMs() - LIFE_MS,
    names,
    read,
    replace,
    drop,
    hold,
    takeItem,
    /** Seals events into a batch that is stored before it is sent. */
    add(events: readonly SluiceEvent[]): void {
      const batch = seal(uuid(), events, readJson(store, 'dropped', {}))
      lastMs = Math.max(timers.nowMs(), lastMs + 1)
      const name = `b${String(lastMs).padStart(15, '0')}-${bytesOf(batch.body)}-${id}`
      store.set(name, listJson([batch]))
      store.remove('dropped')
      dropOldest()
    },
    /** Seals what remains of a batch anew, and drops the rest of it. */
    amend(name: string, batch: Batch, { events, report }: Contents, { parts, reason }: Replacement): void {
      const kept = new Set(parts.flat())
      const filled = parts.filter((part) => part.length > 0)
      const sealed = filled.map((part, at) => seal(childKey(batch.key, at), part, at === 0 ? report : {}))
      if (!replace(name, batch, sealed) || reason === null) return
      if (sealed.length === 0) count(report)
      const dropped = events.filter((event) => !kept.has(event))
      drop(reason, dropped)
    },
  }
}

/** The same for all who seal the batch anew, should two of them do so at once; different for each of its parts. */
function childKey(key: string, at: number): string {
  const node = (Number.parseInt(key.slice(-12), 16) * 2 + 1 + at) % 2 ** 48
  return key.slice(0, -12) + node.toString(16).padStart(12, '0')
}

export function unseal(batch: Batch): Contents {
  // Another script may have written something else here. The service refuses that, and it is dropped.
  const body = attempt(() => JSON.parse(batch.body) as Body | null)
  return { events: Array.isArray(body?.events) ? body.events : [], report: body?.client_report?.dropped ?? {} }
}
