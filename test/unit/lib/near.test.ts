import { expect, test } from 'vitest'
import { didYouMean, nearest } from '../../../src/lib/near.ts'

const COMMANDS = ['serve', 'apps', 'tail', 'explain', 'check', 'help', 'version']

test('one letter missing, added, replaced, or two swapped, is a typo of the name', () => {
  for (const [typed, meant] of [
    ['tial', 'tail'],
    ['tal', 'tail'],
    ['taill', 'tail'],
    ['trail', 'tail'],
    ['aps', 'apps'],
    ['exlpian', 'explain'],
    ['chekc', 'check'],
  ] as const) {
    expect(nearest(typed, COMMANDS), typed).toBe(meant)
  }
})

test('the nearest of several is taken', () => {
  expect(nearest('--from-stat', ['--from-port', '--from-start'])).toBe('--from-start')
})

test('a name that is far from all has no suggestion, however long it is', () => {
  for (const typed of ['', 'x', 'sing', 'events', 'x'.repeat(1_000_000)])
    expect(nearest(typed, COMMANDS)).toBeUndefined()
  expect(didYouMean('events', COMMANDS)).toBe('')
  expect(didYouMean('tial', COMMANDS)).toBe('; did you mean tail?')
})
