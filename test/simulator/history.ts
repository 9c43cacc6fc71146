// A history: the apps, the nodes and what happens when. It is plain data, so that it can be generated from a seed
// (generate.ts), printed and shrunk.

import type { AppRecord } from '../../src/apps/app-record.ts'
import type { DiskStep } from './journal/steps.ts'

export type Step = { readonly atMs: number } & (
  | Send
  | DiskStep
  | { readonly kind: 'start' }
  | { readonly kind: 'stop' | 'kill'; readonly node: number }
  | { readonly kind: 'stall'; readonly node: number; readonly forMs: number }
  | {
      readonly kind: 'path'
      readonly node: number
      readonly to: 'redis' | 'nats'
      readonly state: 'silent' | 'cut'
      readonly forMs: number
    }
  | {
      readonly kind: 'delay'
      readonly node: number
      readonly to: 'redis' | 'nats'
      readonly extraMs: number
      readonly forMs: number
    }
  | { readonly kind: 'redis snapshot' | 'redis emptied' | 'redis rolled back' }
  | { readonly kind: 'redis killed'; readonly comesBack: 'with all' | 'rolled back' | 'empty'; readonly forMs: number }
  | { readonly kind: 'redis frozen'; readonly forMs: number }
  | { readonly kind: 'redis slow'; readonly extraMs: number; readonly forMs: number }
  | {
      readonly kind: 'nats killed' | 'nats frozen' | 'nats full' | 'nats without leader' | 'nats silent'
      readonly forMs: number
    }
  | {
      readonly kind: 'nats lost its tail'
      readonly tailMs: number
      readonly forMs: number
      /** Of one stream; absent: of all. */
      readonly stream?: string
    }
  /** One of the three servers is cut off from the two others, or behind them; `place` 0: the one that leads. */
  | { readonly kind: 'server cut' | 'server behind'; readonly place: number; readonly forMs: number }
  | { readonly kind: 'nats slow'; readonly messagesPerSecond: number; readonly forMs: number }
  | { readonly kind: 'acks late'; readonly byMs: number; readonly forMs: number }
  | { readonly kind: 'acks lost'; readonly share: number; readonly forMs: number }
  /** Retention removes what is older. */
  | { readonly kind: 'stream aged'; readonly olderThanMs: number }
  /** Somebody deletes the stream, or one of the buckets. */
  | { readonly kind: 'stream lost' | 'counts lost' | 'apps lost' }
  /** Its record comes back with a `plan` step. */
  | { readonly kind: 'app deleted'; readonly app: number }
  | { readonly kind: 'clock'; readonly of: 'redis' | number; readonly byMs: number }
  | { readonly kind: 'plan'; readonly app: number; readonly record: Partial<AppRecord> }
)

/** A client that sends batches one after the other. */
export interface Send {
  readonly kind: 'send'
  readonly app: number
  /** An index into the ready nodes, modulo their number. */
  readonly node: number
  readonly batches: number
  readonly gapMs: number
  /** Per batch. */
  readonly events: number
  readonly keyed: boolean
  /** Most attempts per batch, all under its key if it has one. */
  readonly tries: number
  readonly retryAfterMs: number
  /** Added to `node` at each retry; 0: the same node. */
  readonly retryOn: number
  /** How often an accepted batch is sent again. */
  readonly replays: number
  /** A second client sends each batch too, so much later, to the next node. */
  readonly twinAfterMs?: number
}

export interface History {
  readonly name: string
  readonly seed: number
  /** Unix ms at which it begins. */
  readonly epochMs: number
  readonly nodes: number
  /** One process with a journal on its disk, without Redis and NATS. */
  readonly isOneMachine?: true
  /** Each node has a spool, on a disk that outlives it. */
  readonly hasSpools?: true
  /** NATS syncs before it acknowledges, and the nodes know it. */
  readonly isSynced?: true
  readonly apps: readonly AppRecord[]
  readonly steps: readonly Step[]
  /** Every fault ends then. */
  readonly endMs: number
  /** Every answer comes within this time; absent: within `MAX_ANSWER_MS`. */
  readonly maxAnswerMs?: number
  /** So many requests may wait for a second, or longer, and be refused; absent: any number. */
  readonly maxWaits?: number
}

/** By the faults that a generated history may have. */
export const HISTORY_KINDS = [
  'calm',
  'plans',
  'crashes',
  'redis',
  'nats',
  'all',
  'far',
  'servers',
  'losses',
  'day',
  'journal',
  'spool',
] as const
export type HistoryKind = (typeof HISTORY_KINDS)[number]

/** One line per step. */
export function describe(history: History): string {
  const { name, seed, epochMs, nodes, apps, steps, endMs } = history
  const lines = [`${name}, seed ${seed}: ${nodes} nodes, from ${new Date(epochMs).toISOString()}`]
  for (const { app_id, app_key: _key, subscription: _subscription, ...limits } of apps) {
    lines.push(`  app ${app_id}: ${textOf(limits)}`)
  }
  for (const { atMs, kind, ...rest } of steps) lines.push(`  ${String(atMs).padStart(7)} ms  ${kind}  ${textOf(rest)}`)
  lines.push(`  ${String(endMs).padStart(7)} ms  every fault ends`)
  return lines.join('\n')
}

function textOf(members: object): string {
  return Object.entries(members)
    .map(([name, value]) => `${name} ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`)
    .join(', ')
}
