import { describe, expect, it } from 'vitest'
import { readHead } from '../../../src/http/read-head.ts'
import type { WireHead } from '../../../src/http/wire.ts'
import { contentEncodingOf, jsonOf, traceOf } from '../../../src/request/head.ts'

describe('Content-Type', () => {
  it.each([
    'application/json',
    'Application/JSON',
    'application/json;charset=utf-8',
    'application/json; charset=UTF-8',
    'application/json; charset="utf-8"',
    'application/json ; profile=x ; CHARSET=Utf-8',
    'application/json;',
    'application/json; charset=utf8',
    'application/json; charset="UTF8"',
    'application/json; v="a;charset=latin1"',
  ])('%s is JSON in UTF-8', (value) => {
    expect(jsonOf(value)).toBe('utf-8')
  })

  it.each([
    null,
    '',
    'text/json',
    'application/jsonp',
    'application/json-patch+json',
    'application/json,application/json',
    'application/json charset=utf-8',
    'application/json; =x',
  ])('%s is refused', (value) => {
    expect(jsonOf(value)).toBe('none')
  })

  it.each([
    'application/json; charset=latin1',
    'application/json; charset="utf-16"',
    'application/json; charset=utf-8; charset=latin1',
    'application/json; charset=',
  ])('%s is JSON in another charset', (value) => {
    expect(jsonOf(value)).toBe('other charset')
  })
})

describe('Content-Encoding', () => {
  it.each([
    [null, 'identity'],
    ['identity', 'identity'],
    ['GZIP', 'gzip'],
    ['deflate', 'deflate'],
    ['br', 'br'],
    ['zstd', null],
    ['gzip, gzip', null],
    ['gzip,br', null],
  ])('%s is read as %s', (header, encoding) => {
    expect(contentEncodingOf(header)).toBe(encoding)
  })
})

function headOf(...lines: [name: string, value: string][]): ReturnType<typeof readHead> {
  const head: WireHead = {
    getQuery: () => undefined,
    getCaseSensitiveMethod: () => 'POST',
    getUrl: () => '/api/v1/events',
    forEach: (each) => {
      for (const [name, value] of lines) each(name, value)
    },
  }
  return readHead(head, null, null)
}

describe('the end of a body', () => {
  it.each(['', ' ', '+5', '-5', '5,5', '0x5', '5.0', '1e3', 'ten', '1'.repeat(16)])(
    'is ambiguous with the length %j',
    (value) => {
      expect(headOf(['content-length', value]).framingFault).toBe('Content-Length: must be a number of bytes')
    },
  )

  it('is clear with one length, or with chunks', () => {
    expect(headOf(['content-length', '005'])).toMatchObject({ framingFault: null, contentLengthBytes: 5 })
    expect(headOf(['transfer-encoding', 'Chunked'])).toMatchObject({ framingFault: null, contentLengthBytes: null })
  })

  it('is ambiguous with two lengths, two codings, or both, in either order', () => {
    const length: [string, string] = ['content-length', '5']
    const chunked: [string, string] = ['transfer-encoding', 'chunked']
    expect(headOf(length, length).framingFault).toBe('Content-Length: must appear once')
    expect(headOf(chunked, chunked).framingFault).toBe('Transfer-Encoding: must be chunked')
    expect(headOf(['transfer-encoding', 'gzip, chunked']).framingFault).toBe('Transfer-Encoding: must be chunked')
    const both = 'Content-Length: must not appear with Transfer-Encoding'
    expect(headOf(length, chunked).framingFault).toBe(both)
    expect(headOf(chunked, length).framingFault).toBe(both)
  })
})

describe('Connection', () => {
  it.each(['close', 'Close', 'TE, close', 'close,te', 'keep-alive , close '])('%s closes after the answer', (value) => {
    expect(headOf(['connection', value]).wantsClose).toBe(true)
  })

  it.each(['keep-alive', 'closed', 'x-close', 'te'])('%s stays open', (value) => {
    expect(headOf(['connection', value]).wantsClose).toBe(false)
  })
})

describe('traceparent', () => {
  const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736'
  const PARENT_ID = '00f067aa0ba902b7'
  const shared = `-${TRACE_ID}-${PARENT_ID}-01`

  it.each([
    ['version 00', `00${shared}`, `00${shared}`],
    ['version 00 with any flags', `00-${TRACE_ID}-${PARENT_ID}-fe`, `00-${TRACE_ID}-${PARENT_ID}-fe`],
    ['a later version', `01${shared}`, `01${shared}`],
    ['a later version with more fields, without these', `cc${shared}-what-the-future-will-be`, `cc${shared}`],
    ['a later version with an empty field', `cc${shared}-`, `cc${shared}`],
  ])('is kept: %s', (_, header, kept) => {
    expect(traceOf(header)).toBe(kept)
  })

  it.each([
    ['none', null],
    ['an empty one', ''],
    ['version ff', `ff${shared}`],
    ['version 00 with more fields', `00${shared}-more`],
    ['version 00 with a dash behind it', `00${shared}-`],
    ['a line break behind it', `00${shared}\n`],
    ['a later version that runs on', `01${shared}2`],
    ['upper case', `00${shared.toUpperCase()}`],
    ['a trace id of zeros', `00-${'0'.repeat(32)}-${PARENT_ID}-01`],
    ['a parent id of zeros', `00-${TRACE_ID}-${'0'.repeat(16)}-01`],
    ['a short trace id', `00-${TRACE_ID.slice(1)}-${PARENT_ID}-01`],
    ['a letter that is no digit', `00-${TRACE_ID.replace('f', 'g')}-${PARENT_ID}-01`],
    ['no flags', `00-${TRACE_ID}-${PARENT_ID}`],
    ['a quote', `00-${TRACE_ID}-${PARENT_ID}-0"`],
    ['two in a row', `00${shared},00${shared}`],
  ])('is ignored: %s', (_, header) => {
    expect(traceOf(header)).toBeNull()
  })

  it('that is repeated is not kept', () => {
    const line: [string, string] = ['traceparent', `00${shared}`]
    expect(headOf(line).traceparent).toBe(`00${shared}`)
    expect(traceOf(headOf(line, line).traceparent)).toBeNull()
  })
})
