// What the scenarios are made of.

import type { AppRecord } from '../../src/apps/app-record.ts'
import type { History, Send, Step } from './history.ts'

export const NOON_MS = Date.UTC(2026, 10, 20, 12)
export const HOUR_MS = 3_600_000

export function anApp(at: number, limits: Partial<AppRecord> = {}): AppRecord {
  return { app_key: `ak_${at}`, app_id: `app${at}`, plan: '5m', subscription: 'active', ...limits }
}

export function send(atMs: number, parts: Partial<Send>): Step & Send {
  const plain = {
    app: 0,
    node: 0,
    batches: 1,
    gapMs: 0,
    events: 1,
    keyed: false,
    tries: 1,
    retryAfterMs: 0,
    retryOn: 0,
    replays: 0,
  }
  return { ...plain, ...parts, atMs, kind: 'send' }
}

export function history(name: string, parts: Partial<History> & Pick<History, 'steps' | 'endMs'>): History {
  return { name, seed: 1, epochMs: NOON_MS, nodes: 2, apps: [anApp(0)], ...parts }
}

export interface Scenario {
  /** The test's title. */
  readonly claim: string
  readonly history: History
  /** How many requests were not answered 202; absent: it does not matter. */
  readonly refused?: number
}
