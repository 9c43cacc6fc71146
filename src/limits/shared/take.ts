// One call of take.lua: what it is asked, and what it answers.

import { readFileSync } from 'node:fs'
import type { App } from '../../apps/app.ts'
import { redisScript } from '../../redis/script.ts'
import type { CycleMinutes } from '../cycle-minutes.ts'

/** Outlives every request, which is answered some 3 s after its claim, and frees the keys of a dead node within 10 s. */
const CLAIM_MS = 7000

export const TAKE = redisScript(readFileSync(new URL('./take.lua', import.meta.url), 'utf8'))

export function fenceKey(partition: number): string {
  return `sluice:{p${partition}}:fence`
}

export function countsKey(partition: number, appId: string): string {
  return `sluice:{p${partition}}:app:${appId}`
}

export function idempotencyKey(partition: number, batchId: string): string {
  return `sluice:{p${partition}}:key:${batchId}`
}

/** As take.lua says it; from `REPLAY` on, the key was accepted with so many events more. */
export const ANSWER = { done: 0, month: 1, day: 2, minute: 3, held: 4, early: 5, replay: 100 } as const

export interface AppQuestion {
  readonly partition: number
  readonly app: App
  readonly cycle: CycleMinutes
  /** Events for the node's bucket. */
  readonly wanted: number
  /** Events that are not stored, by the minute that they were taken in. */
  readonly givenBack: ReadonlyMap<number, number>
  /** `key`: in Redis; null: the request has none. */
  readonly takes: readonly { readonly events: number; readonly key: string | null }[]
}

export interface Question {
  readonly nodeId: string
  readonly accepted: readonly { readonly key: string; readonly events: number; readonly keptMs: number }[]
  readonly released: readonly string[]
  readonly apps: readonly AppQuestion[]
}

export interface AppAnswer {
  /** UTC minutes since 1970: the one that was taken from. */
  readonly minute: number
  /** The first minute of the cycle that holds it. */
  readonly cycleMinute: number
  readonly monthUsed: number
  readonly dayUsed: number
  readonly minuteUsed: number
  readonly granted: number
  /** One for each take. */
  readonly takes: readonly number[]
}

export interface Answer {
  /** Redis's clock. */
  readonly nowMs: number
  readonly apps: readonly AppAnswer[]
}

export function wordsOf(question: Question): { keys: string[]; args: string[] } {
  const { accepted, released, apps } = question
  const keys: string[] = []
  const args: (string | number)[] = [question.nodeId, CLAIM_MS, accepted.length]
  for (const { key, events, keptMs } of accepted) {
    keys.push(key)
    args.push(events, keptMs)
  }
  args.push(released.length)
  keys.push(...released)
  args.push(apps.length)
  for (const { partition, app, cycle, wanted, givenBack, takes } of apps) {
    keys.push(fenceKey(partition), countsKey(partition, app.appId))
    args.push(app.eventsPerMonth, app.eventsPerDay ?? -1, app.eventsPerMinute, cycle.first, cycle.next, wanted)
    args.push(givenBack.size)
    for (const [minute, events] of givenBack) args.push(minute, events)
    args.push(takes.length)
    for (const { events, key } of takes) {
      args.push(events, key === null ? 0 : 1)
      if (key !== null) keys.push(key)
    }
  }
  return { keys, args: [JSON.stringify(args)] }
}

export function answerIn(reply: unknown, { apps }: Question): Answer {
  const numbers = reply as readonly number[]
  let at = 0
  const next = (): number => numbers[at++]
  const several = (count: number): number[] => Array.from({ length: count }, next)
  return {
    nowMs: next(),
    apps: apps.map(({ takes }) => ({
      minute: next(),
      cycleMinute: next(),
      monthUsed: next(),
      dayUsed: next(),
      minuteUsed: next(),
      granted: next(),
      takes: several(takes.length),
    })),
  }
}
