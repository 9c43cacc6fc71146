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

import type { TakeOutcome } from './app-budget.ts'
import { ANSWER, type AppQuestion, type AppReply, type Reply } from './take.ts'

/** `late`: a reply to a call that had been given up. `unserved`: the cluster does not serve the slot, so nothing has run. */
export type CallEnding =
  | { readonly kind: 'replied' | 'late'; readonly reply: Reply }
  | { readonly kind: 'away' | 'unanswered' | 'unserved' | 'refused' }

/** `isNewest`: the app's record is still the one that was asked with. `hasForgotten`: Redis has lost its partition's counts. */
export type AppState = Readonly<Record<'isNewest' | 'hasForgotten', boolean>>

/** Of one app's part of the call. */
export interface AppEnding {
  /** In the order of the takes; empty: they have been told. */
  readonly outcomes: readonly TakeOutcome[]
  /** Each for `AppBudget.correct`. */
  readonly corrections: readonly (readonly [minute: number, events: number])[]
  /** The reply's counts and its token budget hold from now on. */
  readonly isApplied: boolean
  readonly releasedKeys: readonly string[]
}

const NOTHING: AppEnding = { outcomes: [], corrections: [], isApplied: false, releasedKeys: [] }

/** Whether accepted keys, and what was to be told of lost counts, go into the next call. */
export const isSentAgain = ({ kind }: CallEnding): boolean =>
  kind === 'away' || kind === 'unanswered' || kind === 'unserved'

/** `at`: the app's place in the call. */
export function endOf(ending: CallEnding, at: number, question: AppQuestion, state: AppState): AppEnding {
  const { takes } = question
  const all = (outcome: TakeOutcome): TakeOutcome[] => takes.map(() => outcome)
  const sent = [...question.corrections]
  const ofTaken = sent.filter(([, events]) => events < 0)
  switch (ending.kind) {
    case 'replied':
      return replied(ending.reply, at, question, state)
    case 'late': {
      const again = ofTaken.map(([minute, events]) => [minute, -events] as const)
      return { ...NOTHING, corrections: [...takenFor(question, ending.reply.apps[at]), ...again] }
    }
    case 'away':
    case 'unanswered':
      return { ...NOTHING, outcomes: all(ending.kind), corrections: ofTaken }
    case 'unserved':
      // Nothing is claimed under these keys. A probe without them could succeed where the call did not.
      return {
        ...NOTHING,
        outcomes: all('away'),
        corrections: sent,
        releasedKeys: takes.flatMap(({ key }) => key ?? []),
      }
    case 'refused':
      // Redis would refuse it again.
      return { ...NOTHING, outcomes: all('away') }
  }
}

function replied({ apps, nowMs }: Reply, at: number, { takes }: AppQuestion, state: AppState): AppEnding {
  const { minute, cycleMinute, granted, takes: answers } = apps[at]
  const { isNewest, hasForgotten } = state
  // The newest record decides about each request, and may allow less. After a loss, what this node knew before it decides.
  const isApplied = isNewest && !hasForgotten
  const corrections: [number, number][] = !isApplied && granted > 0 ? [[minute, granted]] : []
  const outcomes = takes.map(({ events, asks }, place): TakeOutcome => {
    const answer = answers[place]
    if (answer === ANSWER.forgotten) return 'away'
    if (isNewest || answer === ANSWER.held || answer >= ANSWER.replay || answer < 0)
      return { answer, nowMs, minute, cycleMinute }
    if (answer === ANSWER.done && events > 0 && asks !== true) corrections.push([minute, events])
    return 'retry'
  })
  return { ...NOTHING, outcomes, corrections, isApplied }
}

/** What Redis counted for requests that were answered without it. */
function takenFor({ takes }: AppQuestion, { minute, granted, takes: answers }: AppReply): [number, number][] {
  const taken = takes.filter(({ asks }, place) => answers[place] === ANSWER.done && asks !== true)
  const events = taken.reduce((sum, take) => sum + take.events, granted)
  return events > 0 ? [[minute, events]] : []
}
