import { expect, test } from 'vitest'
import { recordsOf } from '../../../../src/contract/record/record-lines.ts'

const textsOf = (message: string): string[] => [...recordsOf(Buffer.from(message))].map((line) => line.toString('utf8'))

test('a message is split at its newlines, whether or not it ends with one', () => {
  expect(textsOf('{"é":1}\n{"b":2}\n')).toEqual(['{"é":1}', '{"b":2}'])
  expect(textsOf('{"a":1}\n{"b":2}')).toEqual(['{"a":1}', '{"b":2}'])
  expect(textsOf('')).toEqual([])
})
