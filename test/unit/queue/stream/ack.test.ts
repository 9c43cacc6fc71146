import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseAck, storedSequence } from '../../../../src/queue/stream/ack.ts'

const bytes = (text: string): Buffer => Buffer.from(text)

describe('an acknowledgement', () => {
  it('of the common form gives its sequence', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 999_999_999_999_999 }), fc.constantFrom('', ' '), (sequence, blank) => {
        const data = bytes(`{"stream":"SLUICE_EVENTS",${blank}"seq":${sequence}}`)
        expect(storedSequence(data)).toBe(sequence)
        expect(parseAck(data, 0)).toEqual({ kind: 'stored', sequence })
      }),
    )
  })

  it('is never read as stored by the fast path where the full parser says otherwise', () => {
    const parts = [
      '{"stream":"SLUICE_EVENTS","seq":',
      '{"stream":"OTHER","seq":',
      '{',
      '}',
      '7',
      '12',
      ',"duplicate":true}',
    ]
    const text = fc.array(fc.oneof(fc.constantFrom(...parts), fc.string({ maxLength: 3 })), { maxLength: 4 })
    fc.assert(
      fc.property(text, (pieces) => {
        const data = bytes(pieces.join(''))
        const sequence = storedSequence(data)
        if (sequence > 0) expect(parseAck(data, 0)).toEqual({ kind: 'stored', sequence })
      }),
      { numRuns: 2000 },
    )
  })

  it.each([
    ['{"stream":"SLUICE_EVENTS","seq":5,"duplicate": true}', { kind: 'duplicate', sequence: 5 }],
    ['{"stream":"SLUICE_EVENTS", "seq": 5}', { kind: 'stored', sequence: 5 }],
    ['{"stream":"SLUICE_EVENTS","domain":"hub","seq":5}', { kind: 'stored', sequence: 5 }],
    ['{"stream":"OTHER","seq":5}', { kind: 'foreign stream' }],
    [
      '{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"stream":"SLUICE_EVENTS","seq":0}',
      { kind: 'refused', reason: 'maximum bytes exceeded', isFull: true },
    ],
    [
      '{"error":{"code":503,"err_code":10023,"description":"insufficient resources"},"stream":"SLUICE_EVENTS","seq":0}',
      { kind: 'refused', reason: 'insufficient resources', isFull: true },
    ],
    [
      '{"error":{"code":400,"err_code":10109,"description":"invalid operation on sealed stream"},"stream":"SLUICE_EVENTS","seq":0}',
      { kind: 'refused', reason: 'invalid operation on sealed stream', isFull: false },
    ],
    ['{"error":{"code":500}}', { kind: 'refused', reason: 'error 500', isFull: false }],
    ['{"stream":"SLUICE_EVENTS","seq":0}', { kind: 'unreadable' }],
    ['{"stream":"SLUICE_EVENTS","seq":1e300}', { kind: 'unreadable' }],
    ['{"stream":"SLUICE_EVENTS","seq":12345678901234567890}', { kind: 'unreadable' }],
    ['{"stream":"SLUICE_EVENTS"', { kind: 'unreadable' }],
    ['null', { kind: 'unreadable' }],
    ['', { kind: 'unreadable' }],
  ])('%s', (text, wanted) => {
    expect(storedSequence(bytes(text))).toBe(0)
    expect(parseAck(bytes(text), 0)).toEqual(wanted)
  })

  it('with the status 503 means that there are no responders', () => {
    expect(parseAck(bytes(''), 503)).toEqual({ kind: 'no responders' })
  })
})

describe('the acknowledgement of an atomic batch', () => {
  const error = (description: string): string => JSON.stringify({ error: { code: 400, description } })

  it.each([
    ['{"stream":"SLUICE_EVENTS","seq":44,"batch":"node-b1","count":20}', { kind: 'stored', sequence: 44 }],
    // Of a server that has stored each message alone, or not.
    ['{"stream":"SLUICE_EVENTS","seq":44}', { kind: 'unreadable' }],
    ['{"stream":"SLUICE_EVENTS","seq":44,"batch":"node-b1","count":19}', { kind: 'unreadable' }],
    [error('atomic publish is disabled'), { kind: 'not as a batch', reason: 'atomic publish is disabled' }],
    // In a cluster: of one that is under way.
    [
      error('duplicate message id is in process'),
      { kind: 'not as a batch', reason: 'duplicate message id is in process' },
    ],
    [error('maximum bytes exceeded'), { kind: 'refused', reason: 'maximum bytes exceeded', isFull: true }],
  ])('%s', (text, expected) => {
    expect(parseAck(bytes(text), 0, 20)).toEqual(expected)
  })

  it('is none of a single message', () => {
    const data = bytes('{"stream":"SLUICE_EVENTS","seq":44,"batch":"node-b1","count":20}')
    expect([storedSequence(data), parseAck(data, 0)]).toEqual([0, { kind: 'unreadable' }])
  })
})
