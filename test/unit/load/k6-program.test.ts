// What the tests of load scripts make of a k6 that is not there, and of one that is something else.

import type { TestContext } from 'vitest'
import { afterEach, expect, it, vi } from 'vitest'
import { needK6 } from '../../support/k6.ts'

afterEach(() => vi.unstubAllEnvs())

function needIt(): string[] {
  const skipped: string[] = []
  needK6({ skip: (note: string) => void skipped.push(note) } as unknown as TestContext)
  return skipped
}

it('a K6 that is not k6 is an error, and no reason to leave the tests out', () => {
  vi.stubEnv('K6', '/nowhere/k6')
  expect(needIt).toThrow('K6=/nowhere/k6: that is not k6')
})

it('without any k6 the tests are left out, and say so', () => {
  for (const name of ['K6', 'PATH', 'HOME']) vi.stubEnv(name, '')
  expect(needIt()).toEqual(['k6 is not installed: scripts type-checked, not executed'])
})
