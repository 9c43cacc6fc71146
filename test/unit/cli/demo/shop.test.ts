// The batches of `sluice demo`, held to the validator: what is meant to be stored fits, and what is wrong is so on purpose.

import { expect, it } from 'vitest'
import { type DemoBatch, visits } from '../../../../src/cli/demo/shop.ts'
import { validate } from '../../../../src/decode/validator.ts'
import { DECODED_WORDS } from '../../../../src/ring/layout.ts'
import { NOW_MS, seededRandom } from '../../decode/bodies.ts'

const BATCHES = 2000

function some(): readonly DemoBatch[] {
  const random = seededRandom(20261128)
  const all = visits(
    () => random(1_000_000) / 1_000_000,
    () => NOW_MS,
  )
  return Array.from({ length: BATCHES }, () => all.next().value)
}

function judged({ events }: DemoBatch): string {
  const body = Buffer.from(JSON.stringify({ app_key: 'ak_demo', events }))
  const validation = validate(body, NOW_MS, new Int32Array(DECODED_WORDS), 0)
  return validation.kind === 'refused' ? (validation.message ?? '') : 'accepted'
}

it('fits the schema, but for the last event of a batch that is wrong on purpose', () => {
  const mistakes = new Set<string>()
  for (const batch of some()) {
    if (batch.kind !== 'wrong') {
      expect(judged(batch)).toBe('accepted')
      continue
    }
    expect(judged({ ...batch, events: batch.events.slice(0, -1) })).toBe('accepted')
    mistakes.add(judged(batch).replace(/^events\[\d+\]/, ''))
  }
  expect(mistakes.size).toBe(5)
  expect(mistakes).not.toContain('accepted')
})

it('is wrong in fewer than a tenth, and repeats the batch before under its key', () => {
  const all = some()
  const wrong = all.filter(({ kind }) => kind === 'wrong')
  expect(wrong.length).toBeGreaterThan(BATCHES / 20)
  expect(wrong.length).toBeLessThan(BATCHES / 10)
  const repeats = all.flatMap((batch, at) => (batch.kind === 'repeat' ? [{ batch, at }] : []))
  expect(repeats.length).toBeGreaterThan(50)
  for (const { batch, at } of repeats) {
    const before = all.slice(0, at).findLast(({ kind }) => kind === 'good')
    expect(batch).toMatchObject({ key: before?.key, events: before?.events })
  }
  const types = new Set(all.flatMap(({ events }) => events.map(({ type }) => type)))
  expect(types).toEqual(new Set(['screen', 'track', 'revenue']))
})
