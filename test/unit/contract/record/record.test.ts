import { describe, expect, it } from 'vitest'
import { recordLine } from '../../../../src/contract/record/record.ts'
import { HEADROOM_BYTES } from '../../../../src/ring/layout.ts'

const head = {
  batchId: '0190a1b2-0000-7000-8000-000000000001',
  appId: 'demo',
  receivedAt: '2026-11-20T12:00:00.000Z',
  sdkVersion: '',
  trace: null,
  extras: null,
}

/** One character for each byte of the text. */
const asSent = (text: string): string => Buffer.from(text).toString('latin1')

/** A ring's memory with one body, and the position of its events. */
function place(before: string, events: string, after: string) {
  const body = Buffer.from(before + events + after)
  const memory = Buffer.from(new SharedArrayBuffer(HEADROOM_BYTES + body.length + 8))
  memory.set(body, HEADROOM_BYTES)
  const eventsStart = HEADROOM_BYTES + Buffer.byteLength(before)
  return { memory, at: { from: 0, eventsStart, eventsEnd: eventsStart + Buffer.byteLength(events) } }
}

describe('a queue record', () => {
  it('is one line of JSON around the events as they were sent', () => {
    const { memory, at } = place('{"app_key":"ak_1","events":', '[{"n": 1e999}]', '}')
    const line = Buffer.from(recordLine(memory, at, head)).toString()
    expect(line).toBe(
      `{"v":1,"batch_id":"${head.batchId}","app_id":"demo","received_at":"${head.receivedAt}","events":[{"n": 1e999}]}\n`,
    )
  })

  it('carries sdk_version as sent, non-ASCII included', () => {
    const { memory, at } = place('{"events":', '[1]', ',"app_key":"ak_1","sdk_version":"2.1é\\u0041"}')
    const line = Buffer.from(recordLine(memory, at, { ...head, sdkVersion: asSent('"2.1é\\u0041"') })).toString()
    expect(line).toContain('"sdk_version":"2.1é\\u0041","events":[1]}')
    expect(JSON.parse(line)).toMatchObject({ sdk_version: '2.1éA', events: [1] })
  })

  it('carries the trace between sdk_version and the events', () => {
    const trace = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
    const { memory, at } = place('{"app_key":"ak_1","events":', '[1]', '}')
    const line = Buffer.from(recordLine(memory, at, { ...head, sdkVersion: asSent('"é"'), trace })).toString()
    expect(line.endsWith(`,"sdk_version":"é","trace":"${trace}","events":[1]}\n`)).toBe(true)
    expect(Object.keys(JSON.parse(line) as object)).toContain('trace')
  })

  it('is a copy where its head does not fit before the events', () => {
    const { memory, at } = place('{"events":', '[1]', '}')
    const untouched = Buffer.from(memory)
    const line = Buffer.from(recordLine(memory, at, { ...head, sdkVersion: asSent(`"${'é'.repeat(1000)}"`) }))
    expect(JSON.parse(line.toString())).toMatchObject({ v: 1, sdk_version: 'é'.repeat(1000), events: [1] })
    expect(memory).toEqual(untouched)
  })

  it('keeps members that the schema does not name under extra', () => {
    const { memory, at } = place('{"app_key":"ak_1","v":9,"events":', '[1]', ',"sent_at":"😀"}')
    const line = Buffer.from(recordLine(memory, at, { ...head, extras: '"v":9,"sent_at":"😀"' })).toString()
    expect(line.endsWith(',"events":[1],"extra":{"v":9,"sent_at":"😀"}}\n')).toBe(true)
    expect(JSON.parse(line)).toMatchObject({ v: 1, extra: { v: 9 } })
  })

  it('with every member at its longest is still right where its head does not fit', () => {
    const trace = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
    for (let lengthBytes = 0; lengthBytes < 40; lengthBytes++) {
      const { memory, at } = place('{"events":', '[1]', '}')
      const version = 'é'.repeat(lengthBytes)
      const long = { ...head, appId: 'x'.repeat(64), sdkVersion: asSent(JSON.stringify(version)), trace }
      const record: unknown = JSON.parse(Buffer.from(recordLine(memory, at, long)).toString())
      expect(record).toMatchObject({ sdk_version: version, trace, events: [1] })
    }
  })

  it('never writes before its headroom nor more than two bytes after its events', () => {
    const { memory, at } = place('{"app_key":"ak_1","events":', '[1]', '}')
    memory.fill(0xee, at.eventsEnd + 1)
    recordLine(memory, { ...at, from: 100 }, head)
    expect(memory.subarray(0, 100).every((byte) => byte === 0)).toBe(true)
    expect(memory.subarray(at.eventsEnd + 2).every((byte) => byte === 0xee)).toBe(true)
  })
})
