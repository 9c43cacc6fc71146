// Random histories, by the faults that they may have.

import type { AppRecord } from '../../src/apps/app-record.ts'
import { EVENTS_STREAM } from '../../src/nats/store-names.ts'
import { type History, type HistoryKind, type Send, type Step } from './history.ts'
import { generateJournal } from './journal/history.ts'
import { SERVERS } from './nats-replicas.ts'
import { Random } from './random.ts'
import { generateSpool } from './spool/history.ts'

const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS
const NOON_MS = Date.UTC(2026, 10, 20, 12)
const MONTH_TURN_MS = Date.UTC(2026, 11, 1)
const PLANS = ['10k', '100k', '500k'] as const

export function generate(seed: number, kind: HistoryKind): History {
  if (kind === 'far') return generateFar(seed)
  if (kind === 'servers') return generateServers(seed)
  if (kind === 'losses') return generateLosses(seed)
  if (kind === 'day') return generateDay(seed)
  if (kind === 'journal') return generateJournal(seed)
  if (kind === 'spool') return generateSpool(seed)
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

const FAR_FAULTS = ['clock', 'counts lost', 'stream aged', 'app deleted', 'anchor moved', 'delay', 'path'] as const

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
  } else if (fault === 'delay' || fault === 'path') {
    steps.push(minutesLate(random, { atMs, node: random.int(0, nodes - 1), forMs: random.int(20, 200) * 1000 }))
  } else if (fault === 'stream aged') steps.push({ atMs, kind: fault, olderThanMs: 3 * MINUTE_MS })
  else steps.push({ atMs, kind: fault })
  // One fault that heals, of those that last for seconds.
  if (random.chance(0.5)) steps.push(...generateFault(random, random.pick(['crashes', 'redis']), nodes, endMs))
  steps.sort((one, other) => one.atMs - other.atMs)
  const epochMs = (random.chance(0.3) ? MONTH_TURN_MS : NOON_MS) - random.int(0, endMs)
  return { name: 'far', seed, epochMs, nodes, apps, steps, endMs }
}

/** One of the three NATS servers is cut off or behind while a minute ends. */
function generateServers(seed: number): History {
  const random = new Random(seed)
  const endMs = random.int(80, 200) * 1000
  const nodes = random.int(1, 3)
  // What is given out again after a minute was closed too early shows in a limit of the day.
  const day = (): Partial<AppRecord> => ({ events_per_day: random.int(100, 1000) })
  const apps = Array.from({ length: 3 }, (_, at) => ({ ...generateApp(random, at), ...day() }))
  const steps: Step[] = []
  for (let count = random.int(8, 25); count > 0; count--) steps.push(generateSend(random, apps.length, endMs))
  const turnMs = random.int(15_000, 50_000)
  // Each app sends just before the minute ends, and uses its limit up once that has been closed.
  for (const app of apps.keys()) {
    const usual = { ...generateSend(random, apps.length, endMs), app }
    steps.push({ ...usual, atMs: turnMs - random.int(500, 10_000) })
    steps.push({ ...usual, atMs: turnMs + random.int(6000, 15_000), batches: 50, gapMs: 100, events: 20 })
  }
  for (let count = random.int(1, 3); count > 0; count--) {
    const kind = random.pick(['server cut', 'server behind'] as const)
    const place = kind === 'server cut' ? random.int(0, SERVERS - 1) : random.int(1, SERVERS - 1)
    const forMs = random.pick([300, 4000, 8000, 20_000, 40_000, 70_000])
    const atMs = random.chance(0.5) ? turnMs - random.int(1000, 14_000) : random.int(500, endMs - 1000)
    steps.push({ atMs, kind, place, forMs })
  }
  if (random.chance(0.3)) steps.push(...generateFault(random, 'all', nodes, endMs))
  steps.sort((one, other) => one.atMs - other.atMs)
  return { name: 'servers', seed, epochMs: NOON_MS - turnMs, nodes, apps, steps, endMs }
}

/** NATS loses what it has stored, and some nodes may be new since. */
function generateLosses(seed: number): History {
  const random = new Random(seed)
  const endMs = random.int(120, 240) * 1000
  const nodes = random.int(1, 3)
  const apps = Array.from({ length: random.int(1, 3) }, (_, at) => generateApp(random, at))
  const steps: Step[] = []
  for (let count = random.int(5, 20); count > 0; count--) steps.push(generateSend(random, apps.length, endMs))
  const atMs = random.int(60_000, endMs - 50_000)
  const kind = random.pick(['stream lost', 'counts lost', 'apps lost', 'nats lost its tail'] as const)
  if (kind === 'nats lost its tail') {
    steps.push({ atMs, kind, stream: EVENTS_STREAM, tailMs: random.pick([3000, 30_000, 70_000]), forMs: 1 })
  } else steps.push({ atMs, kind })
  if (random.chance(0.5)) {
    const otherMs = random.int(1000, endMs - 1000)
    const forMs = random.pick([300, 4000, 8000])
    const fault = random.pick(['crashes', 'redis', 'nats'] as const)
    const when = { atMs: otherMs, node: random.int(0, nodes - 1), forMs }
    if (fault === 'nats') steps.push(natsFault(random, when))
    else steps.push(...(fault === 'redis' ? redisFault(random, when) : nodeFault(random, when, endMs)))
  }
  steps.sort((one, other) => one.atMs - other.atMs)
  return { name: 'losses', seed, epochMs: NOON_MS - random.int(0, endMs), nodes, apps, steps, endMs }
}

/** A path on which packets arrive minutes late, or only once it has healed. */
function minutesLate(random: Random, { atMs, node, forMs }: When): Step {
  const to = random.pick(['redis', 'nats'] as const)
  if (random.chance(0.5)) return { atMs, kind: 'path', node, to, state: 'silent', forMs }
  return { atMs, kind: 'delay', node, to, extraMs: random.int(5, 180) * 1000, forMs }
}

/** A whole day, with little in it: minutes, hours and the day turn, and faults come far from each other. */
function generateDay(seed: number): History {
  const random = new Random(seed)
  const nodes = random.int(1, 2)
  const apps = Array.from({ length: 3 }, (_, at) => generateApp(random, at))
  const steps: Step[] = []
  for (let count = random.int(20, 60); count > 0; count--) {
    const atMs = random.int(500, DAY_MS - 1000)
    steps.push({ ...generateSend(random, apps.length, DAY_MS), atMs })
    // The same app again when the minute has been closed.
    steps.push({
      ...generateSend(random, apps.length, DAY_MS),
      atMs: Math.min(DAY_MS, atMs + random.int(1, 120) * 1000),
    })
  }
  for (let count = random.int(2, 6); count > 0; count--) {
    const when = { atMs: random.int(MINUTE_MS, DAY_MS - MINUTE_MS), node: random.int(0, nodes - 1) }
    if (random.chance(0.3)) steps.push(minutesLate(random, { ...when, forMs: random.int(20, 200) * 1000 }))
    else steps.push(...generateFault(random, 'all', nodes, DAY_MS))
  }
  steps.sort((one, other) => one.atMs - other.atMs)
  return { name: 'day', seed, epochMs: MONTH_TURN_MS - random.int(0, DAY_MS), nodes, apps, steps, endMs: DAY_MS }
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

function generateSend(random: Random, apps: number, endMs: number): Step & Send {
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
    case 'servers':
    case 'losses':
    case 'day':
    case 'journal':
    case 'spool':
    case 'crashes':
      return nodeFault(random, { atMs, node, forMs }, endMs)
  }
}

interface When {
  readonly atMs: number
  readonly node: number
  readonly forMs: number
}

function nodeFault(random: Random, { atMs, node, forMs }: When, endMs: number): Step[] {
  switch (random.int(0, 4)) {
    case 0:
      return [
        { atMs, kind: 'kill', node },
        { atMs: Math.min(atMs + forMs, endMs), kind: 'start' },
      ]
    case 1:
      return [
        { atMs, kind: 'stop', node },
        { atMs: Math.min(atMs + forMs, endMs), kind: 'start' },
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
