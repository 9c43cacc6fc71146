// The batches that wait, oldest first, and the count of what was dropped. One item of the store holds a batch, or what
// a refusal made of it: an item changes in one write, so that a crash neither loses nor doubles an event.

import { attempt, bytesOf, type Timers, uuid } from './platform.ts'
import { readJson, type SpillingStore } from './store.ts'
import type { DropReason, Options, SluiceEvent } from './types.ts'

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
  /** Sealed anew with the clock's correction: a second one would not help. */
  readonly corrected?: true
}

type Report = Partial<Record<DropReason, number>>
type Body = { events?: SluiceEvent[]; client_report?: { dropped?: Report } }

export type Queue = ReturnType<typeof createQueue>

export function createQueue(store: SpillingStore, timers: Timers, options: Options, version: string) {
  const { appKey, maxQueueBytes = DEFAULT_MAX_BYTES, onDropped } = options
  /** Items that this client is sending. */
  const busy = new Set<string>()
  const id = uuid()
  let lastMs = 0

  const names = (): string[] =>
    store
      .keys()
      .filter((name) => NAME.test(name))
      .toSorted()
  const read = (name: string): Batch[] =>
    [readJson<(Batch | null)[]>(store, name, [])].flat().filter((batch) => typeof batch?.body === 'string') as Batch[]
  const write = (name: string, batches: readonly Batch[]): unknown =>
    batches.length === 0 ? store.remove(name) : store.set(name, JSON.stringify(batches))

  function seal(events: readonly SluiceEvent[], dropped: Report): Batch {
    const report = Object.keys(dropped).length > 0 ? { client_report: { dropped } } : {}
    return { key: uuid(), body: JSON.stringify({ app_key: appKey, sdk_version: version, ...report, events }) }
  }

  function count(report: Report): void {
    const dropped: Report = readJson(store, 'dropped', {})
    for (const [reason, more] of Object.entries(report) as [DropReason, number][])
      dropped[reason] = (dropped[reason] ?? 0) + more
    if (Object.keys(report).length > 0) store.set('dropped', JSON.stringify(dropped))
  }

  function drop(reason: DropReason, events: readonly SluiceEvent[]): void {
    if (events.length === 0) return
    count({ [reason]: events.length })
    // What the hook throws must not stop the sending.
    attempt(() => onDropped?.(reason, events), undefined)
  }

  /** Without a reason it is taken back: it was surely not sent, and its events are kept elsewhere. */
  function dropItem(name: string, reason: DropReason | null): void {
    const batches = read(name).map(unseal)
    store.remove(name)
    for (const { events, report } of batches) {
      count(report)
      if (reason !== null) drop(reason, events)
    }
  }

  function dropOldest(): void {
    const waiting = names()
    let bytes = waiting.reduce((sum, name) => sum + Number(NAME.exec(name)?.[2]), 0)
    for (const name of waiting.slice(0, -1)) {
      if (bytes <= maxQueueBytes) return
      if (busy.has(name)) continue
      bytes -= Number(NAME.exec(name)?.[2])
      dropItem(name, 'overflow')
    }
  }

  /** Puts others in the place of a batch, where it is still there. */
  function replace(name: string, batch: Batch, others: readonly Batch[]): boolean {
    const [first, ...rest] = read(name)
    if (first?.key !== batch.key) return false
    write(name, [...others, ...rest])
    return true
  }

  return {
    busy,
    /** Sealed by this client: no two of its batches have one time. */
    isOwn: (name: string): boolean => name.endsWith(id),
    names,
    read,
    replace,
    drop,
    dropItem,
    /** Seals events into a batch that is stored before it is sent. Returns its name. */
    add(events: readonly SluiceEvent[]): string {
      const batch = seal(events, readJson(store, 'dropped', {}))
      lastMs = Math.max(timers.nowMs(), lastMs + 1)
      const name = `b${String(lastMs).padStart(15, '0')}-${bytesOf(batch.body)}-${id}`
      write(name, [batch])
      store.remove('dropped')
      dropOldest()
      return name
    },
    /** Seals what remains of a refused batch anew, and drops the rest of it. */
    amend(name: string, batch: Batch, parts: readonly SluiceEvent[][], corrected: boolean, reason: DropReason): void {
      const { events, report } = unseal(batch)
      const sealed = parts.map((part, index) => seal(part, index === 0 ? report : {}))
      if (!replace(name, batch, corrected ? sealed.map((part) => ({ ...part, corrected })) : sealed)) return
      if (sealed.length === 0) count(report)
      const kept = new Set(parts.flat().map((event) => event.event_id))
      drop(
        reason,
        events.filter((event) => !kept.has(event.event_id)),
      )
    },
    dropExpired(): void {
      const oldestMs = timers.nowMs() - LIFE_MS
      for (const name of names()) if (Number(NAME.exec(name)?.[1]) <= oldestMs) dropItem(name, 'expired')
    },
  }
}

export function unseal(batch: Batch): { readonly events: SluiceEvent[]; readonly report: Report } {
  // Null where somebody else wrote it. The service refuses it, and it goes.
  const body = attempt(() => JSON.parse(batch.body) as Body | null, null)
  return { events: body?.events ?? [], report: body?.client_report?.dropped ?? {} }
}
