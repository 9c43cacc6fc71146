import { expect, test } from 'vitest'
import { ScanPace } from '../../../src/decode/scan-pace.ts'

const KB = 1024

/** How many KB are expected to take 0.1 ms. */
function kbInTenthMs(pace: ScanPace): number {
  return 0.1 / pace.msFor(KB)
}

test('slow scans make the expectation longer, and fast ones make it shorter again', () => {
  const pace = new ScanPace()
  expect(kbInTenthMs(pace)).toBeCloseTo(390.6, 1)
  for (let scan = 0; scan < 100; scan++) pace.note(70 * KB, 0.07)
  expect(kbInTenthMs(pace)).toBeCloseTo(100, 0)
  for (let scan = 0; scan < 100; scan++) pace.note(70 * KB, 0.01)
  expect(kbInTenthMs(pace)).toBeCloseTo(390.6, 1)
})

test('one scan that was interrupted changes little', () => {
  const pace = new ScanPace()
  pace.note(KB, 50)
  expect(kbInTenthMs(pace)).toBeGreaterThan(390 / 1.4)
})

test('where all runs go elsewhere, slow scans are forgotten, but no scan is expected to be faster than any was', () => {
  const pace = new ScanPace()
  for (let scan = 0; scan < 100; scan++) pace.note(70 * KB, 0.7)
  expect(kbInTenthMs(pace)).toBeCloseTo(10, 0)
  for (let run = 0; run < 50; run++) pace.skip()
  expect(kbInTenthMs(pace)).toBeLessThan(20)
  for (let run = 0; run < 10_000; run++) pace.skip()
  expect(kbInTenthMs(pace)).toBeCloseTo(390.6, 1)
  pace.note(0, 1)
  expect(kbInTenthMs(pace)).toBeCloseTo(390.6, 1)
})
