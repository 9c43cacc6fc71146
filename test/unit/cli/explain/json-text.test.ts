import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeString, itemsOf, membersOf, type Span } from '../../../../src/cli/explain/json-text.ts'

function cut(text: Buffer, { start, end }: Span): string {
  return text.toString('utf8', start, end)
}

function members(json: string): [string, string][] {
  const text = Buffer.from(json)
  return [...membersOf(text)].map(({ name, value }) => [name, cut(text, value)])
}

describe('members', () => {
  test('are found in order, as they stand, repeats included', () => {
    expect(members('{"a":1e999,"b":"x\\"},{", "a" : [1,{"c":"]"}] ,"":null}')).toEqual([
      ['a', '1e999'],
      ['b', '"x\\"},{"'],
      ['a', '[1,{"c":"]"}]'],
      ['', 'null'],
    ])
  })

  test('have their names decoded', () => {
    expect(members('{"app\\u005fkey":"\\ud83d"}')).toEqual([['app_key', '"\\ud83d"']])
  })

  test('of anything but an object are none', () => {
    for (const json of ['', '[]', '"{"', '12', '{}', ' { } ']) expect(members(json)).toEqual([])
  })

  test('equal what JSON.parse finds, whatever the white space', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.constantFrom('', ' ', '\t', '\r\n  '),
        (object, space) => {
          // JSON.parse lets a later repeat win; a generated dictionary has none.
          const found = members(JSON.stringify(object, null, space)).map(([name, value]) => [name, JSON.parse(value)])
          expect(found).toEqual(Object.entries(JSON.parse(JSON.stringify(object))))
        },
      ),
    )
  })
})

test('items equal what JSON.parse finds', () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue()), fc.constantFrom('', ' '), (array, space) => {
      const text = Buffer.from(JSON.stringify(array, null, space))
      const found = [...itemsOf(text, 0)].map((span) => JSON.parse(cut(text, span)))
      expect(found).toEqual(JSON.parse(JSON.stringify(array)))
    }),
  )
})

test('broken text ends the search, wherever it breaks', () => {
  const whole = '{"a":[{"b":"c\\\\"},[1,2]],"d":{"e":"f"}}'
  for (let length = 0; length < whole.length; length++) {
    const text = Buffer.from(whole.slice(0, length))
    for (const { value } of membersOf(text)) {
      expect(value.end).toBeLessThanOrEqual(length)
      expect([...itemsOf(text, value.start)].length).toBeLessThan(length)
    }
  }
  expect([...itemsOf(Buffer.from('[,,]'), 0)].length).toBeLessThan(4)
})

test('what is no string decodes to none', () => {
  expect(decodeString(Buffer.from('12'), { start: 0, end: 2 })).toBe('')
  expect(decodeString(Buffer.from('"\\x"'), { start: 0, end: 4 })).toBe('')
})
