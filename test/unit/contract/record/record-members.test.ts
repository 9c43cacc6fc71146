import { expect, test } from 'vitest'
import { recordLine } from '../../../../src/contract/record/record.ts'
import { eventsOf } from '../../../../src/contract/record/record-events.ts'
import { parseRecordHead } from '../../../../src/contract/record/record-head.ts'
import { fill, recordsOf, unfilled } from '../../../../src/contract/record/record-lines.ts'
import { membersJson, readIds, readMembers, readRecord } from '../../../../src/contract/record/record-members.ts'

const MEMBERS = {
  batchId: '0190a1b2-0000-5000-8000-000000000001',
  appId: 'shop_1',
  receivedAt: '2026-11-20T12:00:00.123Z',
}
const TRACE = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
const EVENTS = ['{"n": 1e999, "s":"]}\\""}', '{}']

function written(more: { readonly sdkVersion?: string; readonly trace?: string; readonly extras?: string }): Buffer {
  const ring = Buffer.alloc(600, ' ')
  const text = `[${EVENTS.join(' , ')}]`
  ring.write(text, 400)
  const place = { from: 0, eventsStart: 400, eventsEnd: 400 + text.length }
  const { sdkVersion = '', trace = null, extras = null } = more
  return Buffer.from(recordLine(ring, place, { ...MEMBERS, sdkVersion, trace, extras }))
}

test.each([
  ['nothing else', {}, null, null],
  ['all members', { sdkVersion: '"2.\\"1"', trace: TRACE, extras: '"events":[1]' }, '2."1', TRACE],
  ['a trace', { trace: TRACE }, null, TRACE],
])('what is written with %s is what every reader reads, filled to a block or not', (_, more, sdkVersion, trace) => {
  for (const padding of [0, 1, 64]) {
    const room = Buffer.concat([written({}), written(more), Buffer.alloc(64)])
    const message = room.subarray(0, fill(room, room.length - 64, padding))
    const lines = [...recordsOf(message)]
    expect(lines).toHaveLength(2)
    expect(message.length).toBe(written({}).length + written(more).length + padding)
    const line = unfilled(lines[1])
    expect(line).toEqual(written(more).subarray(0, -1))
    const { batchId, appId, receivedAt } = MEMBERS
    expect(readRecord(line)).toEqual({ line, batchId, appId, receivedAt, sdkVersion, trace, events: 2 })
    expect(readMembers(lines[1])).toEqual({ batchId, appId, receivedAt, sdkVersion, trace })
    expect(readIds(line)).toMatchObject(MEMBERS)
    const receivedAtMs = Date.parse(receivedAt)
    expect(parseRecordHead(lines[1], 0, lines[1].length)).toEqual({
      batchId,
      appId,
      receivedAtMs,
      events: 2,
      keyed: true,
    })
    expect(Array.from(eventsOf(line), ({ bytes }) => bytes.toString())).toEqual(EVENTS)
  }
})

test('each event is shown with its batch, and with what the caller adds', () => {
  const shown = { ...MEMBERS, sdkVersion: null, trace: null }
  const text = `{"batch_id":"${MEMBERS.batchId}","app_id":"shop_1","received_at":"${MEMBERS.receivedAt}","sdk_version":null`
  expect(membersJson(shown)).toBe(`${text}}`)
  expect(membersJson({ ...shown, trace: TRACE }, { node: null })).toBe(`${text},"trace":"${TRACE}","node":null}`)
})

test('of a line that is cut off or of another kind nothing is read', () => {
  const line = written({}).subarray(0, -1)
  for (const other of [line.subarray(0, -1), line.subarray(1), Buffer.from('null'), Buffer.from('')]) {
    expect(readRecord(other)).toBeNull()
    expect(readIds(other)).toBeNull()
  }
  expect(readMembers(line.subarray(1))).toBeNull()
})
