// What NATS has lost in a run, and whether the nodes have to notice it and to tell it in their logs.

import { STREAM_OF, type StoreName } from '../../src/installation/record.ts'
import { APPS_BUCKET } from '../../src/nats/store-names.ts'
import type { NatsServer } from './nats-server.ts'
import type { SimulatedNode } from './node.ts'
import { type StoredMessage, Stream } from './stream.ts'

/** What was stored so long before, without a fault since, has been seen by a node that ran. */
const SEEN_MS = 30_000
/** A Redis that forgets within this time after a loss may have been the only one that knew. */
const TOLD_MS = 60_000
const NAMES: Readonly<Record<StoreName, string>> = {
  stream: 'SLUICE_EVENTS',
  apps: 'SLUICE_APPS',
  counts: 'SLUICE_COUNTS',
}

interface Loss {
  readonly store: StoreName
  readonly atMs: number
  /** A node must tell it; otherwise it may. */
  isDue: boolean
}

/** Of one entry for each app: its loss is of interest, and the nodes of a run get their records directly. */
export function appsBucket(appKeys: readonly string[]): Stream {
  const subject = `$KV.${APPS_BUCKET}.`
  const bucket = new Stream({ subjects: [`${subject}>`], max_age: 0 } as never, 0)
  for (const key of appKeys) bucket.store({ subject: subject + key, head: '', data: Buffer.from('{}') }, 0)
  return bucket
}

export class Losses {
  /** Called for messages of a stream that NATS has lost. */
  onLost: (stream: string, messages: readonly StoredMessage[]) => void = () => {}
  readonly #nats: NatsServer
  readonly #all: Loss[] = []
  #faults = 0
  #quietSinceMs = 0

  constructor(nats: NatsServer) {
    this.#nats = nats
  }

  get #nowMs(): number {
    return this.#nats.world.nowMs
  }

  faultBegins(): void {
    this.#faults++
  }

  faultEnds(): void {
    this.#faults--
    this.#quietSinceMs = this.#nowMs
  }

  /** Redis has lost its copy of what was known. */
  redisForgets(): void {
    this.#quietSinceMs = this.#nowMs
    for (const loss of this.#all) if (loss.atMs > this.#nowMs - TOLD_MS) loss.isDue = false
  }

  deleteStore(store: StoreName): void {
    const { streams } = this.#nats
    const lost = streams.get(STREAM_OF[store])?.messages ?? []
    streams.delete(STREAM_OF[store])
    this.#lose(store, lost)
  }

  loseTail(store: StoreName, sinceMs: number): void {
    this.#lose(store, this.#nats.streams.get(STREAM_OF[store])?.loseTail(sinceMs) ?? [])
  }

  /** Something is gone that need not be missed. */
  mayBeTold(store: StoreName): void {
    this.#all.push({ store, atMs: this.#nowMs, isDue: false })
  }

  #lose(store: StoreName, lost: readonly StoredMessage[]): void {
    const sinceMs = this.#nowMs - SEEN_MS
    const isQuiet = this.#faults === 0 && this.#quietSinceMs <= sinceMs
    this.#all.push({ store, atMs: this.#nowMs, isDue: isQuiet && lost.some(({ atMs }) => atMs <= sinceMs) })
    this.onLost(STREAM_OF[store], lost)
  }

  /** null: each loss was told, with what was lost, and counted; and nothing else was. */
  judge(nodes: readonly SimulatedNode[]): { readonly isFalse: boolean; readonly detail: string } | null {
    const told = nodes.flatMap(({ toldLosses }) => toldLosses)
    for (const { store, atMs, text } of told) {
      if (!this.#all.some((loss) => loss.store === store && loss.atMs <= atMs))
        return { isFalse: true, detail: `of ${store} at ${atMs.toFixed(0)} ms: ${text}` }
    }
    const isOf = (loss: Loss, one: { store: StoreName; atMs: number; text: string }): boolean =>
      one.store === loss.store && one.atMs >= loss.atMs && /\d/.test(one.text) && one.text.includes(NAMES[loss.store])
    const untold = this.#all.find((loss) => loss.isDue && !told.some((one) => isOf(loss, one)))
    if (untold !== undefined) return { isFalse: false, detail: `of ${untold.store} at ${untold.atMs.toFixed(0)} ms` }
    for (const [at, { parts, toldLosses }] of nodes.entries()) {
      for (const [store, count] of Object.entries(parts?.losses() ?? {})) {
        const lines = toldLosses.filter((one) => one.store === store).length
        if (lines !== count)
          return { isFalse: count > lines, detail: `node ${at} counts ${count}, and has told ${lines}` }
      }
    }
    return null
  }
}
