// What becomes of the parts of a call to Redis, by how the call ended. This decides and does nothing; TurnCalls does it.
//
//              takes                          their events             corrections           accepted keys, lost counts
//   replied    what Redis answers; `retry`    what nobody uses is      done                  done
//              where the record is another    given back
//   late       have been told already         given back               those of taken        done
//                                                                      events: taken back
//   silent     `unanswered`, or `away`        known to the audit       those of taken        again
//                                                                      events: again
//   unserved   `away`; their keys are free    none                     again                 again
//   refused    `away`                         none                     dropped               dropped
//
// After a silent call the script may still have run. Events that were taken without Redis are sent again, refunds are not: a
// counter that is too high is corrected by the audit, and one that is too low lets an app exceed its limit.

import type { Take, TakeOutcome } from './app-budget.ts'
import { ANSWER, type AppQuestion, type AppReply, type Reply } from './take.ts'

/** `late`: a reply to a call that had been given up. `unserved`: the cluster does not serve the slot, so nothing has run. */
export type CallEnding =
  | { readonly kind: 'replied' | 'late'; readonly reply: Reply }
  | { readonly kind: 'away' | 'unanswered' | 'unserved' | 'refused' }

/** One app's part of the call. */
export interface AppPart {
  readonly question: AppQuestion
  readonly takes: readonly Take[]
  /** The app's record is still the one that was asked with. */
  readonly isNewest: boolean
  /** Redis has lost the counts of the app's partition: its reply says less than this node knows. */
  readonly hasForgotten: boolean
}

export interface AppEnding {
  /** In the order of the takes; empty: they have been told. */
  readonly outcomes: readonly TakeOutcome[]
  /** Each for `AppBudget.correct`. */
  readonly corrections: readonly (readonly [minute: number, events: number])[]
  /** The reply's counts and its token budget hold from now on. */
  readonly isApplied: boolean
  readonly releasedKeys: readonly string[]
}

/** Whether accepted keys, and what was to be told of lost counts, go into the next call. */
export const isSentAgain = ({ kind }: CallEnding): boolean =>
  kind === 'away' || kind === 'unanswered' || kind === 'unserved'

/** `at`: the app's place in the call. */
export function endOf(ending: CallEnding, at: number, part: AppPart): AppEnding {
  const { question, takes } = part
  const nothing: AppEnding = { outcomes: [], corrections: [], isApplied: false, releasedKeys: [] }
  const away = takes.map((): TakeOutcome => 'away')
  const sent = [...question.corrections]
  switch (ending.kind) {
    case 'replied':
      return { ...nothing, ...replied(ending.reply, at, part) }
    case 'late': {
      const again = sent.filter(([, events]) => events < 0).map(([minute, events]) => [minute, -events] as const)
      return { ...nothing, corrections: [...takenFor(takes, ending.reply.apps[at]), ...again] }
    }
    case 'away':
    case 'unanswered': {
      const { kind } = ending
      return { ...nothing, outcomes: takes.map(() => kind), corrections: sent.filter(([, events]) => events < 0) }
    }
    case 'unserved':
      // Nothing is claimed under these keys. A probe without them could succeed where the call did not.
      return { ...nothing, outcomes: away, corrections: sent, releasedKeys: takes.flatMap(({ key }) => key ?? []) }
    case 'refused':
      // Redis would refuse it again.
      return { ...nothing, outcomes: away }
  }
}

function replied(
  { apps, nowMs }: Reply,
  at: number,
  { takes, isNewest, hasForgotten }: AppPart,
): Pick<AppEnding, 'outcomes' | 'corrections' | 'isApplied'> {
  const { minute, cycleMinute, granted, takes: answers } = apps[at]
  // The newest record decides about each request, and may allow less. After a loss, what this node knew before it decides.
  const isApplied = isNewest && !hasForgotten
  const corrections: [number, number][] = !isApplied && granted > 0 ? [[minute, granted]] : []
  const outcomes = takes.map(({ events, asks }, place): TakeOutcome => {
    const answer = answers[place]
    if (answer === ANSWER.forgotten) return 'away'
    if (isNewest || answer === ANSWER.held || answer >= ANSWER.replay || answer < 0)
      return { answer, nowMs, minute, cycleMinute }
    if (answer === ANSWER.done && events > 0 && !asks) corrections.push([minute, events])
    return 'retry'
  })
  return { outcomes, corrections, isApplied }
}

/** What Redis counted for requests that were answered without it. */
function takenFor(takes: readonly Take[], { minute, granted, takes: answers }: AppReply): [number, number][] {
  const taken = takes.filter(({ asks }, place) => answers[place] === ANSWER.done && !asks)
  const events = taken.reduce((sum, take) => sum + take.events, granted)
  return events > 0 ? [[minute, events]] : []
}
