// What this process answers: of itself, and from the stores once they are open.

import type { Live } from '../contract/admin/peers.ts'
import { problemOf } from '../contract/admin/problems.ts'
import type { Timers } from '../lib/timers.ts'
import { type CountedOfApps, lastHourPiece } from './last-hour.ts'
import { type AllTaps, answerLive } from './live/taps.ts'
import type { LocalNode } from './now/local-node.ts'
import { rangeIn } from './query.ts'
import { type Answer, answerOf, type Own, type Question } from './question.ts'
import { type RefusalSource, readRefusalQuestion, refusalsPiece } from './refusals/refusal-view.ts'
import { narrowed } from './scope.ts'
import type { StoreAnswers } from './store-answers.ts'

export interface OwnAnswersOptions extends CountedOfApps {
  readonly node: LocalNode
  readonly refusals: RefusalSource
  readonly taps: AllTaps
  readonly stores: StoreAnswers
  readonly timers: Pick<Timers, 'nowMs'>
}

export class OwnAnswers implements Own {
  readonly #options: OwnAnswersOptions

  constructor(options: OwnAnswersOptions) {
    this.#options = options
  }

  get name(): string {
    return this.#options.node.name
  }

  async answer(question: Question): Promise<Answer> {
    const { node, refusals, taps, stores, timers } = this.#options
    const { name, scope, query: text, body = Buffer.alloc(0) } = question
    const query = new URLSearchParams(text)
    if (name === 'now') return answerOf(node.report(rangeIn(query)))
    if (name === 'refusals') {
      const asked = readRefusalQuestion(query)
      if (typeof asked === 'string') return problemOf('bad_request', asked)
      const at = { node: node.name, nowMs: timers.nowMs(), startedAtMs: node.startedAtMs }
      return answerOf(refusalsPiece(refusals, narrowed(asked, scope), at))
    }
    if (name === 'last hour') {
      const app = scope === 'all' ? null : scope.appId
      return answerOf(await lastHourPiece(app, this.#options, timers.nowMs()))
    }
    if (name === 'live') return answerOf(answerLive(node.name, taps, JSON.parse(body.toString()) as Live))
    return await stores.answer(name, question)
  }
}
