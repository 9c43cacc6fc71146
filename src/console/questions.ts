// What every process answers of itself, so that any of them can show all.

import type { LastHour } from '../limits/usage-report.ts'
import type { AcceptedCounts } from './accepted-counts.ts'
import type { LocalNode } from './local-node.ts'
import type { NodeReport, SilentNode } from './now.ts'
import { type RefusalQuestion, type RefusalSource, type RefusalsPiece, refusalsPiece } from './refusal-view.ts'

export interface Questions {
  readonly now: { readonly withHistory: boolean }
  readonly refusals: RefusalQuestion
  readonly 'last hour': { readonly app: string | null }
}

export interface Pieces {
  readonly now: NodeReport
  readonly refusals: RefusalsPiece
  readonly 'last hour': LastHourPiece
}

export type QuestionName = keyof Questions

/** What all processes told. */
export interface Told<Piece> {
  readonly pieces: readonly Piece[]
  /** Only for `now`. */
  readonly silent: readonly SilentNode[]
  /** Why others could not be asked; null: they were, or there are none. */
  readonly problem: string | null
}

export type Ask = <Name extends QuestionName>(name: Name, question: Questions[Name]) => Promise<Told<Pieces[Name]>>

/** Events accepted, and requests refused, of apps in the last hour. */
export interface LastHourPiece {
  readonly accepted: Readonly<Record<string, number>>
  readonly refused: Readonly<Record<string, Readonly<Record<string, number>>>>
  /** false: an app that is not in it may still have had some. */
  readonly has_all: boolean
}

export interface OwnAnswersOptions {
  readonly node: LocalNode
  readonly refusals: RefusalSource
  readonly accepted: AcceptedCounts
  readonly nowMs: () => number
}

export class OwnAnswers {
  readonly #options: OwnAnswersOptions

  constructor(options: OwnAnswersOptions) {
    this.#options = options
  }

  get name(): string {
    return this.#options.node.name
  }

  async answer<Name extends QuestionName>(name: Name, question: Questions[Name]): Promise<Pieces[Name]>
  async answer(name: QuestionName, question: Questions[QuestionName]): Promise<Pieces[QuestionName]> {
    const { node, refusals, nowMs } = this.#options
    switch (name) {
      case 'now':
        return await node.report(question as Questions['now'])
      case 'refusals':
        return refusalsPiece(refusals, question as Questions['refusals'], { node: node.name, nowMs: nowMs() })
      case 'last hour':
        return this.#lastHour(question as Questions['last hour'])
    }
  }

  #lastHour({ app }: Questions['last hour']): LastHourPiece {
    const { accepted, refusals, nowMs } = this.#options
    const isWanted = (appId: string): boolean => app === null || app === appId
    // An app may be named `__proto__` or `constructor`, which an object has already.
    const refused = new Map<string, Record<string, number>>()
    for (const { app_id, code, count } of refusals.rows(nowMs())) {
      if (app_id === null || !isWanted(app_id)) continue
      const codes = refused.get(app_id) ?? {}
      codes[code] = (codes[code] ?? 0) + count
      refused.set(app_id, codes)
    }
    return {
      accepted: Object.fromEntries([...accepted.all(nowMs())].filter(([appId]) => isWanted(appId))),
      refused: Object.fromEntries(refused),
      has_all: accepted.hasAll,
    }
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
  return { acceptedEvents, refused }
}
