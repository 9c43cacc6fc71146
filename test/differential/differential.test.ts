import { expect, test } from 'vitest'
import type { Scanner } from '../../src/decode/scanner.ts'
import { FIELD } from '../../src/ring/layout.ts'
import { caseOf } from './cases.ts'
import { Judge, type JudgedScanner } from './judge.ts'
import { emptySummary, faultsOf, runSeeds, type Summary } from './run.ts'

const SEEDS = 4000
const FEW_SEEDS = 200

function run(seeds: number, newJudge: () => Judge): Summary {
  const summary = emptySummary()
  runSeeds(1, seeds, newJudge(), newJudge, summary)
  return summary
}

function hexOf(seed: number): string[] {
  return caseOf(seed).bodies.map((body) => body.toString('hex'))
}

/** The real scanner with some of its members replaced. */
function altered(real: Scanner, scan: JudgedScanner['scan']): JudgedScanner {
  return {
    scan,
    hash: (start, end) => real.hash(start, end),
    appKey: () => real.appKey(),
    extras: () => real.extras(),
    get extraCount() {
      return real.extraCount
    },
    get sawLineBreak() {
      return real.sawLineBreak
    },
  }
}

test(`the scanner accepts nothing that the validator refuses, and finds the same numbers, for ${SEEDS} seeds`, () => {
  const summary = run(SEEDS, () => new Judge())
  expect(summary.faults.map(({ seed, verdict }) => `${seed}: ${verdict.judged}: ${verdict.detail}`)).toEqual([])
  const { counts, bodies } = summary
  // A run in which one answer is rare proves little.
  expect(counts.accepted / bodies).toBeGreaterThan(0.3)
  expect(counts['not sure'] / bodies).toBeGreaterThan(0.3)
})

test('a seed always makes the same bodies', () => {
  for (let seed = 1; seed < FEW_SEEDS; seed++) expect(hexOf(seed)).toEqual(hexOf(seed))
})

test('a scanner that accepts a refused body is reported, with the seed that shows it again', () => {
  const newJudge = (): Judge =>
    new Judge((real) =>
      altered(real, (...given) => {
        real.scan(...given)
        return true
      }),
    )
  const { faults, counts } = run(FEW_SEEDS, newJudge)
  expect(counts['false accept']).toBeGreaterThan(0)
  for (const { seed, repeat } of faults) expect(repeat).toEqual({ from: seed, count: 1 })
})

test('a scanner that finds one number wrong is reported', () => {
  const newJudge = (): Judge =>
    new Judge((real) =>
      altered(real, (start, end, nowMs, words, at) => {
        const accepted = real.scan(start, end, nowMs, words, at)
        if (words[at + FIELD.track] > 1) words[at + FIELD.track] -= 1
        return accepted
      }),
    )
  const summary = run(FEW_SEEDS, newJudge)
  expect(summary.counts['different numbers']).toBe(faultsOf(summary))
  expect(faultsOf(summary)).toBeGreaterThan(0)
})

test('a scanner that remembers what came before is reported with the seeds that it takes', () => {
  const newJudge = (): Judge => {
    let accepted = 0
    return new Judge((real) =>
      altered(real, (...given) => {
        const isAccepted = real.scan(...given)
        if (isAccepted) accepted += 1
        return isAccepted || accepted > 3
      }),
    )
  }
  const { faults } = run(FEW_SEEDS, newJudge)
  expect(faults.length).toBeGreaterThan(0)
  for (const { repeat } of faults) expect(repeat?.count).toBeGreaterThan(1)
})
