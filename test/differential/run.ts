// Judges a range of seeds, and finds for each fault the shortest run that shows it again.

import { caseOf } from './cases.ts'
import { Judge, type Judged, type Verdict } from './judge.ts'

export interface Fault {
  readonly seed: number
  /** A run of `--bodies count` from `--seed from` shows it again; null: only a longer one. */
  readonly repeat: { readonly from: number; readonly count: number } | null
  readonly verdict: Verdict
  readonly body: Buffer
}

export interface Summary {
  seeds: number
  bodies: number
  readonly counts: Record<Judged, number>
  neededValidator: number
  readonly faults: Fault[]
}

/** A scanner may remember what came before, so a fault may need the seeds before its own. */
const SEEDS_BEFORE = [0, 1, 10, 100, 1000]
/** Further ones are only counted. */
const MAX_FAULTS_SHOWN = 20

export function emptySummary(): Summary {
  const counts = {
    accepted: 0,
    'not sure': 0,
    'false accept': 0,
    'different numbers': 0,
    'other decoders disagree': 0,
  }
  return { seeds: 0, bodies: 0, counts, neededValidator: 0, faults: [] }
}

/** `newJudge` makes one that remembers nothing. Adds to `summary`. */
export function runSeeds(from: number, count: number, judge: Judge, newJudge: () => Judge, summary: Summary): void {
  for (let seed = from; seed < from + count; seed++) {
    const made = caseOf(seed)
    for (const [index, verdict] of judge.judge(seed, made).entries()) {
      summary.bodies += 1
      summary.counts[verdict.judged] += 1
      if (verdict.neededValidator) summary.neededValidator += 1
      if (!isFault(verdict) || summary.faults.length >= MAX_FAULTS_SHOWN) continue
      summary.faults.push({ seed, verdict, repeat: shortestRepeat(seed, newJudge), body: made.bodies[index] })
    }
    summary.seeds += 1
  }
}

function isFault({ judged }: Verdict): boolean {
  return judged !== 'accepted' && judged !== 'not sure'
}

export function faultsOf({ counts }: Summary): number {
  return counts['false accept'] + counts['different numbers'] + counts['other decoders disagree']
}

function shortestRepeat(seed: number, newJudge: () => Judge): Fault['repeat'] {
  for (const before of SEEDS_BEFORE) {
    const judge = newJudge()
    const from = Math.max(0, seed - before)
    for (let earlier = from; earlier < seed; earlier++) judge.judge(earlier, caseOf(earlier))
    if (judge.judge(seed, caseOf(seed)).some(isFault)) return { from, count: seed - from + 1 }
  }
  return null
}
