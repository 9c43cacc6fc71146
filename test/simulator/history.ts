// A history: the apps, the nodes and what happens when. It is plain data, so that it can be generated from a seed,
// printed and shrunk.

import type { AppRecord } from '../../src/apps/app-record.ts'
import { Random } from './random.ts'

export type Step = { readonly atMs: number } & (
  | Send
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
  | { readonly kind: 'nats slow'; readonly messagesPerSecond: number; readonly forMs: number }
  | { readonly kind: 'acks late'; readonly byMs: number; readonly forMs: number }
  | { readonly kind: 'acks lost'; readonly share: number; readonly forMs: number }
  /** Retention removes what is older. */
  | { readonly kind: 'stream aged'; readonly olderThanMs: number }
  /** Somebody deletes the bucket SLUICE_COUNTS. */
  | { readonly kind: 'counts lost' }
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
  readonly apps: readonly AppRecord[]
  readonly steps: readonly Step[]
  /** Every fault ends then. */
  readonly endMs: number
  /** Every answer comes within this time; absent: within `MAX_ANSWER_MS`. */
  readonly maxAnswerMs?: number
}

/** By the faults that a generated history may have. */
export const HISTORY_KINDS = ['calm', 'plans', 'crashes', 'redis', 'nats', 'all', 'far'] as const
export type HistoryKind = (typeof HISTORY_KINDS)[number]

const MINUTE_MS = 60_000
const NOON_MS = Date.UTC(2026, 10, 20, 12)
const MONTH_TURN_MS = Date.UTC(2026, 11, 1)
const PLANS = ['10k', '100k', '500k'] as const

export function generate(seed: number, kind: HistoryKind): History {
  if (kind === 'far') return generateFar(seed)
  const random = new Random(seed)
  const endMs = random.int(10, 60) * 1000
  // Most histories contain the end of a minute, some that of a day, or of a day and a month.
  const turnMs = random.chance(0.1) ? MONTH_TURN_MS : random.chance(0.1) ? NOON_MS + 12 * 60 * MINUTE_MS : NOON_MS
  const epochMs = turnMs - random.int(0, Math.min(endMs, MINUTE_MS - 1000))
  const nodes = random.int(1, 3)
  const apps = Array.from({ length: random.int(1, 3) }, (_, at) => generateApp(random, at))
  const steps: Step[] = []
  const sends = random.int(3, 14)
  for (let count = 0; count < sends; count++) steps.push(generateSend(random, apps.length, endMs))
  const faults = kind === 'calm' || kind === 'plans' ? 0 : random.int(1, 4)
  for (let count = 0; count < faults; count++) steps.push(...generateFault(random, kind, nodes, endMs))
  const changes = kind === 'plans' ? random.int(1, 3) : kind === 'all' && random.chance(0.2) ? 1 : 0
  for (let count = 0; count < changes; count++) steps.push(planChange(random, apps.length, endMs))
  steps.sort((one, other) => one.atMs - other.atMs)
  return { name: kind, seed, epochMs, nodes, apps, steps, endMs }
}

const FAR_FAULTS = ['clock', 'counts lost', 'stream aged', 'app deleted', 'anchor moved'] as const

/** Minutes instead of seconds: clocks that are hours wrong, and what happens to apps and stores in weeks. */
function generateFar(seed: number): History {
  const random = new Random(seed)
  const minutes = random.int(4, 20)
  const endMs = minutes * MINUTE_MS
  const nodes = random.int(2, 3)
  const apps = Array.from({ length: random.int(1, 3) }, (_, at) => generateApp(random, at))
  const steps: Step[] = []
  for (let count = random.int(5, 20); count > 0; count--) steps.push(generateSend(random, apps.length, endMs))
  const atMs = random.int(MINUTE_MS, endMs - MINUTE_MS)
  const app = random.int(0, apps.length - 1)
  const fault = random.pick(FAR_FAULTS)
  if (fault === 'clock') {
    const hours = random.pick([-26, -2, -0.2, 0.2, 2, 26])
    steps.push({ atMs, kind: 'clock', of: random.int(0, nodes - 1), byMs: hours * 60 * MINUTE_MS })
  } else if (fault === 'app deleted') {
    steps.push({ atMs, kind: fault, app }, { atMs: atMs + random.int(1000, 50_000), kind: 'plan', app, record: {} })
  } else if (fault === 'anchor moved') {
    const record = { billing_cycle_anchor: `2026-0${random.int(1, 9)}-${random.int(10, 28)}T00:00:00Z` }
    steps.push({ atMs, kind: 'plan', app, record })
  } else if (fault === 'stream aged') steps.push({ atMs, kind: fault, olderThanMs: 3 * MINUTE_MS })
  else steps.push({ atMs, kind: fault })
  // One fault that heals, of those that last for seconds.
  if (random.chance(0.5)) steps.push(...generateFault(random, random.pick(['crashes', 'redis']), nodes, endMs))
  steps.sort((one, other) => one.atMs - other.atMs)
  const epochMs = (random.chance(0.3) ? MONTH_TURN_MS : NOON_MS) - random.int(0, endMs)
  return { name: 'far', seed, epochMs, nodes, apps, steps, endMs }
}

function generateApp(random: Random, at: number): AppRecord {
  const chance = random.next()
  return {
    app_key: `ak_${at}`,
    app_id: `app${at}`,
    plan: random.pick(PLANS),
    subscription: 'active',
    ...(random.chance(0.6) ? { events_per_minute: random.int(10, 300) } : {}),
    ...(chance < 0.3 ? { events_per_day: random.int(20, 500) } : {}),
    ...(chance > 0.7 ? { events_per_month: random.int(20, 800) } : {}),
    ...(random.chance(0.2) ? { billing_cycle_anchor: '2026-01-30T12:00:30Z' } : {}),
  }
}

function generateSend(random: Random, apps: number, endMs: number): Step {
  const keyed = random.chance(0.6)
  return {
    atMs: random.int(500, endMs - 1000),
    kind: 'send',
    app: random.int(0, apps - 1),
    node: random.int(0, 2),
    batches: random.pick([1, 1, 2, 3, 5, 10, 25]),
    gapMs: random.pick([0, 0, 1, 5, 20, 100, 400]),
    events: random.pick([1, 1, 2, 5, 10, 50, 100]),
    keyed,
    tries: random.int(1, 4),
    retryAfterMs: random.pick([1, 50, 500, 2500]),
    retryOn: random.int(0, 1),
    replays: keyed && random.chance(0.4) ? random.int(1, 2) : 0,
  }
}

function planChange(random: Random, apps: number, endMs: number): Step {
  const record: Partial<AppRecord> = random.chance(0.5)
    ? { events_per_month: random.int(20, 800) }
    : { events_per_minute: random.int(10, 300), ...(random.chance(0.5) ? { events_per_day: random.int(20, 500) } : {}) }
  return { atMs: random.int(1000, endMs - 1000), kind: 'plan', app: random.int(0, apps - 1), record }
}

function generateFault(random: Random, kind: HistoryKind, nodes: number, endMs: number): Step[] {
  const atMs = random.int(500, endMs - 1000)
  const node = random.int(0, nodes - 1)
  const forMs = random.pick([5, 50, 300, 1500, 4000, 8000])
  switch (kind === 'all' ? random.pick(['crashes', 'redis', 'nats'] as const) : kind) {
    case 'redis':
      return redisFault(random, { atMs, node, forMs })
    case 'nats':
      return [natsFault(random, { atMs, node, forMs })]
    case 'calm':
    case 'plans':
    case 'far':
    case 'crashes':
      return nodeFault(random, { atMs, node, forMs })
  }
}

interface When {
  readonly atMs: number
  readonly node: number
  readonly forMs: number
}

function nodeFault(random: Random, { atMs, node, forMs }: When): Step[] {
  switch (random.int(0, 4)) {
    case 0:
      return [
        { atMs, kind: 'kill', node },
        { atMs: atMs + forMs, kind: 'start' },
      ]
    case 1:
      return [
        { atMs, kind: 'stop', node },
        { atMs: atMs + forMs, kind: 'start' },
      ]
    case 2:
      return [{ atMs, kind: 'start' }]
    case 3:
      return [{ atMs, kind: 'clock', of: node, byMs: random.pick([-90_000, -3000, -200, 200, 3000, 90_000]) }]
    default:
      return [{ atMs, kind: 'stall', node, forMs }]
  }
}

function redisFault(random: Random, { atMs, node, forMs }: When): Step[] {
  const to = 'redis'
  switch (random.int(0, 7)) {
    case 0:
      return [{ atMs, kind: 'path', node, to, state: random.pick(['silent', 'cut']), forMs }]
    case 1:
      return [{ atMs, kind: 'delay', node, to, extraMs: random.pick([5, 30, 60, 150, 400]), forMs }]
    case 2:
      return [{ atMs, kind: 'redis slow', extraMs: random.pick([1, 10, 60, 300]), forMs }]
    case 3:
      return [{ atMs, kind: 'redis frozen', forMs }]
    case 4:
      return [{ atMs, kind: 'redis emptied' }]
    case 5:
      return [
        { atMs: random.int(0, atMs), kind: 'redis snapshot' },
        { atMs, kind: 'redis rolled back' },
      ]
    case 6:
      return [{ atMs, kind: 'clock', of: 'redis', byMs: random.pick([-3000, -200, 200, 3000, 90_000]) }]
    default:
      return [{ atMs, kind: 'redis killed', comesBack: random.pick(['with all', 'rolled back', 'empty']), forMs }]
  }
}

function natsFault(random: Random, { atMs, node, forMs }: When): Step {
  const to = 'nats'
  switch (random.int(0, 9)) {
    case 0:
      return { atMs, kind: 'path', node, to, state: random.pick(['silent', 'cut']), forMs }
    case 1:
      return { atMs, kind: 'delay', node, to, extraMs: random.pick([5, 100, 900, 2500]), forMs }
    case 2:
      return { atMs, kind: 'nats slow', messagesPerSecond: random.pick([5, 20, 100]), forMs }
    case 3:
      return { atMs, kind: 'nats lost its tail', tailMs: random.pick([10, 500, 3000]), forMs }
    case 4:
      return { atMs, kind: 'acks late', byMs: random.pick([50, 1000, 2500, 5000]), forMs }
    case 5:
      return { atMs, kind: 'acks lost', share: random.pick([0.1, 0.5, 1]), forMs }
    default:
      return {
        atMs,
        kind: random.pick(['nats killed', 'nats frozen', 'nats full', 'nats without leader', 'nats silent']),
        forMs,
      }
  }
}

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
