// The table of planted bugs follows the code: each of them can be planted (`npm run mutate` plants them).

import { expect, test } from 'vitest'
import { ONE_MACHINE } from '../mutate/one-machine.js'
import { SHARED_MODE } from '../mutate/shared.js'
import { problemOf } from '../mutate/workspace.js'

test.each([...ONE_MACHINE, ...SHARED_MODE])('$name: $bug', (mutant) => {
  expect(problemOf(mutant)).toBeNull()
})
