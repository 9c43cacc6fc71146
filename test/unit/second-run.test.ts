import { expect, test } from 'vitest'
import { secondRun } from '../support/second-run.js'

const args = ['--project=!long', 'test/unit/']

test('files that fail in a larger run are run again, alone, with the same options', () => {
  expect(secondRun(args, { ran: 40, failed: ['test/unit/a.test.ts', 'test/unit/b.test.ts'] })).toEqual([
    '--project=!long',
    'test/unit/a.test.ts',
    'test/unit/b.test.ts',
  ])
})

test('nothing runs again where many fail, where all that ran failed, where none did, or where the run ended before its report', () => {
  const failed = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
  expect(secondRun(args, { ran: 40, failed })).toBeUndefined()
  expect(secondRun(args, { ran: 3, failed: failed.slice(0, 3) })).toBeUndefined()
  expect(secondRun(args, { ran: 40, failed: [] })).toBeUndefined()
  expect(secondRun(args, undefined)).toBeUndefined()
})
