import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseRecordHead } from '../../../../src/contract/record/record-head.ts'
import { makeRecord } from '../../../support/journal.ts'

const hexadecimal = fc.constantFrom(...'0123456789abcdef'.split(''))
const uuid = fc
  .tuple(fc.array(hexadecimal, { minLength: 31, maxLength: 31 }), fc.constantFrom('5', '7'))
  .map(([digits, version]) => {
    const text = digits.join('')
    return `${text.slice(0, 8)}-${text.slice(8, 12)}-${version}${text.slice(12, 15)}-${text.slice(15, 19)}-${text.slice(19)}`
  })
const appId = fc.string({ unit: fc.constantFrom(...'abzAZ019_-'.split('')), minLength: 1, maxLength: 64 })
const time = fc.date({ min: new Date('2001-01-01'), max: new Date('2099-12-31'), noInvalidDate: true })
// Texts that would mislead a careless parser.
const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: fc.constantFrom('"', '\\', '[', ']', '{', '}', ',', 'é', '😀', '\n', 'a') }),
)
const event = fc.dictionary(text, fc.oneof(text, fc.jsonValue({ maxDepth: 2 })), { maxKeys: 4 })
const blank = fc.constantFrom('', ' ', '\t')
const stored = fc
  .record({
    batch_id: uuid,
    app_id: appId,
    received_at: time.map((date) => date.toISOString()),
    sdk_version: fc.option(text, { nil: undefined }),
    trace: fc.option(fc.constant(`00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`), { nil: undefined }),
    events: fc.array(event, { maxLength: 8 }),
    extra: fc.option(fc.dictionary(text, fc.jsonValue({ maxDepth: 1 }), { maxKeys: 2 }), { nil: undefined }),
    blank,
  })
  .map(({ blank: space, events, extra, sdk_version, trace, ...head }) => {
    const start = JSON.stringify({ v: 1, ...head, sdk_version, trace }).slice(0, -1)
    const list = `[${space}${events.map((each) => JSON.stringify(each)).join(`${space},${space}`)}${space}]`
    return `${start},"events":${list}${extra === undefined ? '' : `,"extra":${JSON.stringify(extra)}`}}`
  })

function headOf(line: string) {
  const bytes = Buffer.from(`before${line}after`)
  return parseRecordHead(bytes, 6, bytes.length - 5)
}

describe('the head of a stored record', () => {
  it('agrees with JSON.parse of the whole line', () => {
    fc.assert(
      fc.property(stored, (line) => {
        const whole = JSON.parse(line)
        expect(headOf(line)).toEqual({
          batchId: whole.batch_id,
          appId: whole.app_id,
          receivedAtMs: Date.parse(whole.received_at),
          events: whole.events.length,
          keyed: whole.batch_id[14] === '5',
        })
      }),
      { numRuns: 1000 },
    )
  })

  it('is not found in a truncated line', () => {
    fc.assert(
      fc.property(stored, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (line, share) => {
        // A line cut after a brace of `extra` may look complete; one cut before the end of the events does not.
        const whole = Buffer.from(line.includes('"extra":') ? makeRecord().line.toString().trim() : line)
        expect(parseRecordHead(whole, 0, Math.floor(whole.length * share))).toBeNull()
      }),
      { numRuns: 300 },
    )
  })

  it.each([
    ['an empty line', ''],
    ['other JSON', '{"hello":1}'],
    ['another order of members', '{"batch_id":"","v":1}'],
    ['zeros', '\0'.repeat(300)],
    ['a bad time', makeRecord().line.toString().trim().replace('2027', 'x027')],
  ])('is not found in %s', (_name, line) => {
    expect(headOf(line)).toBeNull()
  })
})
