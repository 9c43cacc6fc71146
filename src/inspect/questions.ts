// What every process answers of itself, so that any of them can show all.

import { type LastHourPiece, MAX_BYTES_APPS, type Pieces, type Questions } from '../contract/admin/peers.ts'
import type { OwnGroup, Refusal } from '../contract/admin/refusals.ts'
import type { Timers } from '../lib/timers.ts'
import type { BytesRead, BytesStored, StoredBytes } from '../limits/stored-bytes.ts'
import type { AcceptedCounts } from './activity/accepted-counts.ts'
import type { LocalNode } from './now/local-node.ts'
import type { SilentNode } from './now/now.ts'
import { type RefusalSource, refusalsPiece } from './refusals/refusal-view.ts'
import { narrowed, type Scope } from './scope.ts'
import type { LastHour, Seen } from './usage-report.ts'

/** A shorter time says too little. */
const MIN_RATE_SECONDS = 60

export type QuestionName = keyof Questions

/** The answers of all processes. */
export interface Answers<Piece> {
  readonly pieces: readonly Piece[]
  /** Only for `now`. */
  readonly silent: readonly SilentNode[]
  /** Why others could not be asked; null: they were, or there are none. */
  readonly problem: string | null
}

export type Ask = <Name extends QuestionName>(name: Name, question: Questions[Name]) => Promise<Answers<Pieces[Name]>>

export interface OwnAnswersOptions {
  readonly node: LocalNode
  readonly refusals: RefusalSource
  readonly accepted: AcceptedCounts
  readonly bytes: Pick<StoredBytes, 'read'>
  readonly timers: Pick<Timers, 'nowMs'>
}

export class OwnAnswers {
  readonly name: string
  readonly #answers: {
    readonly [Name in QuestionName]: (question: Questions[Name]) => Pieces[Name] | Promise<Pieces[Name]>
  }

  constructor({ node, refusals, accepted, bytes, timers }: OwnAnswersOptions) {
    this.name = node.name
    this.#answers = {
      now: ({ range }) => node.report(range),
      refusals: (question) =>
        refusalsPiece(refusals, question, { node: node.name, nowMs: timers.nowMs(), startedAtMs: node.startedAtMs }),
      'last hour': async ({ app }) => ({
        ...bytesPiece(await bytes.read(app, MAX_BYTES_APPS)),
        ...lastHourPiece(app, accepted, refusals.rows(timers.nowMs()), timers.nowMs()),
      }),
    }
  }

  async answer<Name extends QuestionName>(name: Name, question: Questions[Name]): Promise<Pieces[Name]> {
    return this.#answers[name](question)
  }
}

/** `app`: null: of all. */
function lastHourPiece(
  app: string | null,
  accepted: AcceptedCounts,
  groups: readonly OwnGroup[],
  nowMs: number,
): LastHourPiece {
  const isWanted = (appId: string): boolean => app === null || app === appId
  // An app may be named `__proto__` or `constructor`, which an object has already.
  const refused = new Map<string, Record<string, number>>()
  for (const { app_id, code, count } of groups) {
    if (app_id === null || !isWanted(app_id)) continue
    const codes = refused.get(app_id) ?? {}
    codes[code] = (codes[code] ?? 0) + count
    refused.set(app_id, codes)
  }
  const counts = [...accepted.all(nowMs)].filter(([appId]) => isWanted(appId))
  return {
    accepted: Object.fromEntries(counts.map(([appId, total]) => [appId, total])),
    recent: Object.fromEntries(
      counts.flatMap(([appId, , [count, seconds]]) => (count === 0 ? [] : [[appId, [count, Math.round(seconds)]]])),
    ),
    refused: Object.fromEntries(refused),
    has_all: accepted.hasAll,
  }
}

function bytesPiece({ apps, hasAll }: BytesRead): Pick<LastHourPiece, 'bytes' | 'bytes_has_all'> {
  return {
    bytes: Object.fromEntries(
      apps.map(([appId, { lastHour, today, highestMinute }]) => [appId, [lastHour, today, highestMinute]]),
    ),
    bytes_has_all: hasAll,
  }
}

/** null: it is not known of the app. */
export function lastHourOf(appId: string, pieces: readonly LastHourPiece[]): LastHour | null {
  const known = pieces.filter(({ accepted, has_all }) => has_all || Object.hasOwn(accepted, appId))
  if (pieces.length === 0 || known.length < pieces.length) return null
  const refused: Record<string, number> = {}
  let acceptedEvents = 0
  for (const piece of pieces) {
    acceptedEvents += Object.hasOwn(piece.accepted, appId) ? piece.accepted[appId] : 0
    const codes = Object.hasOwn(piece.refused, appId) ? piece.refused[appId] : {}
    for (const [code, count] of Object.entries(codes)) refused[code] = (refused[code] ?? 0) + count
  }
  return { acceptedEvents, refused, eventsPerSecond: recentRate(appId, pieces) }
}

/** What the processes that answered have counted of an app. */
export function seenOf(appId: string, pieces: readonly LastHourPiece[]): Seen {
  return { lastHour: lastHourOf(appId, pieces), bytes: bytesOf(appId, pieces) }
}

/** null: not known, since a process of an earlier version answers, or too many apps store. */
function bytesOf(appId: string, pieces: readonly LastHourPiece[]): BytesStored | null {
  const counted = pieces.map(({ bytes = {}, bytes_has_all: hasAll }) =>
    Object.hasOwn(bytes, appId) ? bytes[appId] : hasAll === true ? [0, 0, 0] : null,
  )
  const sum = (at: number): number => counted.reduce((total, one) => total + (one?.[at] ?? 0), 0)
  if (counted.length === 0 || counted.includes(null)) return null
  return { lastHour: sum(0), today: sum(1), highestMinute: sum(2) }
}

/** null: not known yet. */
function recentRate(appId: string, pieces: readonly LastHourPiece[]): number | null {
  const counted = pieces.flatMap(({ recent }) => (Object.hasOwn(recent, appId) ? [recent[appId]] : []))
  if (counted.length > 0 && counted.every(([, seconds]) => seconds < MIN_RATE_SECONDS)) return null
  // A node that has just started adds too little for a minute, and not many times too much.
  return counted.reduce((sum, [count, seconds]) => sum + count / Math.max(seconds, MIN_RATE_SECONDS), 0)
}

/** The refusal with this id, of those that any process still knows; null: none does. */
export async function findRefusal(ask: Ask, requestId: string, scope: Scope = 'all'): Promise<Refusal | null> {
  const question = { app: null, code: null, limit: 1, request_id: requestId }
  const { pieces } = await ask('refusals', narrowed(question, scope))
  return pieces.flatMap(({ refusals }) => refusals).at(0) ?? null
}
