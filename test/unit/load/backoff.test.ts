// How long a client waits, and how long all its waits can be together.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { mostWaitSeconds, waitSeconds } from '../../../load/k6/shared/backoff.js'

it('no client waits longer in all than is reckoned, and one with the worst luck waits that long', () => {
  const luck = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 20 })
  fc.assert(
    fc.property(luck, fc.integer({ min: 0, max: 5 }), (draws, retryAfterSeconds) => {
      const wait = (draw: number, attempt: number) => waitSeconds({ attempt, retryAfterSeconds, rng: () => draw })
      const sum = (list: readonly number[]) => list.map(wait).reduce((total, seconds) => total + seconds, 0)
      // There is one wait less than there are tries.
      const most = mostWaitSeconds({ tries: draws.length + 1, retryAfterSeconds })
      expect(sum(draws)).toBeLessThanOrEqual(most)
      expect(sum(draws.map(() => 1))).toBe(most)
    }),
  )
})
