import { describe, expect, it } from 'vitest'
import { contentEncodingOf, isJsonMediaType } from '../../../src/http/head.ts'

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
