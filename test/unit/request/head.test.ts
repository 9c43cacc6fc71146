import type { HttpRequest } from 'uWebSockets.js'
import { describe, expect, it } from 'vitest'
import { readHead } from '../../../src/http/read-head.ts'
import { contentEncodingOf, isJsonMediaType } from '../../../src/request/head.ts'

describe('Content-Type', () => {
  it.each([
    'application/json',
    'Application/JSON',
    'application/json;charset=utf-8',
    'application/json; charset=UTF-8',
    'application/json; charset="utf-8"',
    'application/json ; profile=x ; CHARSET=Utf-8',
    'application/json;',
    'application/json; v="a;charset=latin1"',
  ])('%s is JSON in UTF-8', (value) => {
    expect(isJsonMediaType(value)).toBe(true)
  })

  it.each([
    null,
    '',
    'text/json',
    'application/jsonp',
    'application/json-patch+json',
    'application/json,application/json',
    'application/json; charset=latin1',
    'application/json; charset="utf-16"',
    'application/json; charset=utf-8; charset=latin1',
    'application/json; charset=',
    'application/json charset=utf-8',
    'application/json; =x',
  ])('%s is refused', (value) => {
    expect(isJsonMediaType(value)).toBe(false)
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
  const request = {
    getCaseSensitiveMethod: () => 'POST',
    getUrl: () => '/api/v1/events',
    forEach: (each: (name: string, value: string) => void) => {
      for (const [name, value] of lines) each(name, value)
    },
  } as unknown as HttpRequest
  return readHead(request, null)
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
