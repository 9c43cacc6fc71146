// Histories of one machine: clients, and a disk that loses, tears, fills and fails.

import type { AppRecord } from '../../../src/apps/app-record.ts'
import type { History, Send, Step } from '../history.ts'
import { Random } from '../random.ts'
import type { DiskStep } from './steps.ts'

const MINUTE_MS = 60_000
const NOON_MS = Date.UTC(2026, 10, 20, 12)
const MONTH_TURN_MS = Date.UTC(2026, 11, 1)

export function generateJournal(seed: number): History {
  const random = new Random(seed)
  // Segments go after ten minutes.
  const isLong = random.chance(0.3)
  const endMs = isLong ? random.int(8, 20) * MINUTE_MS : random.int(5, 40) * 1000
  const epochMs = (random.chance(0.2) ? MONTH_TURN_MS : NOON_MS) - random.int(0, Math.min(endMs, MINUTE_MS - 1000))
  const apps = Array.from({ length: random.int(1, 2) }, (_, at) => anApp(random, at))
  const steps: Step[] = []
  for (let count = random.int(3, isLong ? 25 : 12); count > 0; count--) steps.push(aSend(random, apps.length, endMs))
  const mayLose = random.chance(0.15)
  for (let count = random.int(1, 5); count > 0; count--) {
    // Most faults come while something is written.
    const { atMs } = random.pick(steps)
    steps.push({
      atMs: random.chance(0.7) ? atMs + random.int(0, 60) : random.int(500, endMs - 1000),
      ...aFault(random, mayLose),
    })
  }
  // Of its own, so that no other number of an older history changes.
  const strangers = new Random(seed + 7)
  if (strangers.chance(0.15)) {
    const atMs = strangers.pick(steps).atMs + strangers.pick([0, 5, 60, 200, 1500])
    steps.push({
      atMs: Math.min(atMs, endMs),
      kind: 'segment cut',
      share: strangers.pick([0, 0, 0.5, 0.9, strangers.next()]),
    })
  }
  steps.sort((one, other) => one.atMs - other.atMs)
  return { name: 'journal', seed, epochMs, nodes: 1, isOneMachine: true, apps, steps, endMs }
}

function anApp(random: Random, at: number): AppRecord {
  const limits = random.chance(0.3) ? { events_per_minute: random.int(50, 2000) } : {}
  return { app_key: `ak_${at}`, app_id: `app${at}`, plan: '5m', subscription: 'active', ...limits }
}

function aSend(random: Random, apps: number, endMs: number): Step & Send {
  const keyed = random.chance(0.6)
  return {
    atMs: random.int(500, endMs - 1000),
    kind: 'send',
    app: random.int(0, apps - 1),
    node: 0,
    batches: random.pick([1, 2, 5, 10, 40]),
    gapMs: random.pick([0, 0, 1, 3, 20, 400]),
    events: random.pick([1, 1, 2, 5, 20, 100]),
    keyed,
    tries: random.int(1, 6),
    retryAfterMs: random.pick([1, 50, 500, 2500, 20_000, 200_000]),
    retryOn: 0,
    replays: keyed && random.chance(0.6) ? random.int(1, 3) : 0,
  }
}

function aFault(random: Random, mayLose: boolean): DiskStep {
  const forMs = random.pick([5, 50, 300, 1500, 4000])
  const operations = random.pick([0, 1, 2, 3, 5, 8, random.int(0, 40)])
  if (random.chance(0.15)) return { kind: 'stray bytes', text: random.pick(['x', '\n', '{}\n', '\0'.repeat(4096)]) }
  switch (random.int(0, mayLose ? 9 : 7)) {
    case 0:
      return { kind: 'process stopped', forMs }
    case 1:
      return { kind: 'disk slow', extraMs: random.pick([1, 5, 20, 200]), forMs }
    case 2:
      return { kind: 'disk full', freeBytes: random.pick([0, 100, 3000, 20_000]), forMs }
    case 3:
      return { kind: 'disk fails', share: random.pick([0.1, 0.5, 1]), forMs }
    case 4:
    case 5:
      return { kind: 'process killed', operations, forMs }
    case 8:
      return { kind: 'sync lies', forMs }
    case 9:
      return { kind: 'bit flips' }
    default:
      return { kind: 'power cut', operations, forMs }
  }
}
