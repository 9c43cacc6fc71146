// Shows what services and commands printed during a test, where it fails; and ends whatever a file's tests have left.

import { afterAll, beforeEach, vi } from 'vitest'
import { endAll } from './processes.js'
import { launched } from './service.ts'

/** The end says most. */
const MOST_CHARACTERS = 8_000

// Behind every hook of the file itself. The next file may run in the same process.
afterAll(async () => {
  vi.useRealTimers()
  await endAll({ goesOn: true })
  launched.length = 0
})

beforeEach(({ onTestFailed }) => {
  const before = launched.map(({ output }) => output().length)
  onTestFailed(() => {
    for (const [index, { title, output }] of launched.entries()) {
      const text = output().slice(before[index] ?? 0)
      if (text !== '') console.log(`${title} printed during this test:\n${text.slice(-MOST_CHARACTERS)}`)
    }
  })
})
