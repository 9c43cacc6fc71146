// Each option that a command names, in its help, its hints and its errors, is one that it has.

import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { run as check } from '../../../src/cli/check/check.ts'
import { run as explain } from '../../../src/cli/explain/explain.ts'
import { run as find } from '../../../src/cli/find/find.ts'
import type { Command, Shell } from '../../../src/cli/shell.ts'
import { run as tail } from '../../../src/cli/tail/tail.ts'
import { run as usage } from '../../../src/cli/usage/usage.ts'

const SOURCES = resolve(import.meta.dirname, '../../../src/cli')
const WRONG = '--no-such-option'

function optionsNamedIn(folder: string): string[] {
  const texts = readdirSync(join(SOURCES, folder)).map((file) => readFileSync(join(SOURCES, folder, file), 'utf8'))
  return [...new Set(texts.join('\n').match(/--[a-z][a-z-]*/g))]
}

test.each<[string, Command['run'], number]>([
  ['find', find, 6],
  ['usage', usage, 3],
  ['tail', tail, 5],
  ['explain', explain, 2],
  ['check', check, 0],
])('sluice %s names no option that it does not have', async (folder, run, atLeast) => {
  const named = optionsNamedIn(folder)
  expect(named.length).toBeGreaterThanOrEqual(atLeast)
  for (const option of named) {
    // The first option that does not exist is named, before anything is done.
    await expect(run([option, 'x', WRONG], {} as Shell)).rejects.toThrow(`no such option: ${WRONG}`)
  }
})
