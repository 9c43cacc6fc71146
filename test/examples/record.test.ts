// What the examples make of one line of the queue.

import { describe, expect, it } from 'vitest'
import { parseRecord, parseTime } from '../../examples/shared/record.js'
import { eventText, recordText } from '../support/examples.ts'

function parse(text: string) {
  return parseRecord({ partition: '3', sequence: 7n, text })
}

function eventsOf(text: string) {
  const parsed = parse(text)
  if ('problem' in parsed) throw new Error(parsed.problem)
  return parsed.record.events
}

describe('a line of the queue', () => {
  it.each([
    ['no JSON', 'hello', 'not JSON'],
    ['an array', '[]', 'not an object'],
    ['a record of another version', recordText({ events: [] }).replace('"v":1', '"v":2'), 'version 2 is unknown'],
    ['a record without a version', '{"batch_id":"b"}', 'version undefined is unknown'],
    [
      'a record whose events are no array',
      '{"v":1,"batch_id":"b","app_id":"a","received_at":"2026-11-20T12:00:00Z"}',
      'events is no array',
    ],
    [
      'a record without a time',
      '{"v":1,"batch_id":"b","app_id":"a","received_at":"soon","events":[]}',
      'received_at is no time',
    ],
  ])('that is %s says why it is none', (_, text, problem) => {
    expect(parse(text)).toEqual({ problem })
  })

  it('gives each event as it was sent, with its numbers, spaces and order of members', () => {
    const sent = [
      '{ "z" : 1.10, "name":"a,]}\\"[", "n":12345678901234567890123, "x":[1,{"y":[]}] }',
      'null',
      '-1.5e3',
      '"text \\\\"',
      '[]',
      'true',
    ]
    const line = `{"v":1,"batch_id":"b","app_id":"a","received_at":"2026-11-20T12:00:00Z","sdk_version":"\\"events\\":[9]","events": [ ${sent.join(' , ')} ],"extra":{"events":[1,2]}}`
    expect(eventsOf(line).map(({ text }) => text)).toEqual(sent)
  })

  it('is read with members that are unknown or of an unknown type', () => {
    const events = eventsOf(
      recordText({ events: ['{"name":{"a":1},"type":7,"timestamp":null,"event_id":[1],"new":true}', '3'] }),
    )
    const nothing = { type: null, name: null, eventId: null, happenedMs: null }
    expect(events).toMatchObject([nothing, nothing])
  })

  it('keeps two ids with lone surrogates apart, and makes names that a database takes', () => {
    const events = eventsOf(
      recordText({
        events: [eventText('\\ud800', ',"event_id":"\\ud800"'), eventText('\\ud801', ',"event_id":"\\ud801"')],
      }),
    )
    expect(events.map(({ name }) => name)).toEqual(['\ufffd', '\ufffd'])
    expect(events.map(({ eventId }) => eventId)).toEqual(['"\\ud800"', '"\\ud801"'])
  })
})

describe('the time of an event', () => {
  const noon = Date.UTC(2026, 10, 20, 12)

  it.each([
    ['2026-11-20T12:00:00.000Z', noon],
    ['2026-11-20T12:00', noon],
    ['2026-11-20T13:00:00+01:00', noon],
    ['2026-11-20T13:00+0100', noon],
    ['2026-11-20t11:30:00.123456-0030', noon + 123],
    ['2026-11-20', null],
    ['today', null],
  ])('%s is read as the service reads it, in UTC where it names no zone', (text, expected) => {
    expect(parseTime(text)).toBe(expected)
  })
})
