import { describe, expect, test } from 'vitest'
import { eventLines, readParts } from '../../../src/cli/record-lines.ts'

const HEAD =
  '{"v":1,"batch_id":"0b9e3a52-6f0c-5d7e-9a55-2f8c1d3e4b6a","app_id":"demo","received_at":"2026-11-20T12:00:00.000Z"'
const SHOWN =
  '{"batch_id":"0b9e3a52-6f0c-5d7e-9a55-2f8c1d3e4b6a","app_id":"demo","received_at":"2026-11-20T12:00:00.000Z"'

function linesOf(line: string, terminal = false): string {
  const bytes = Buffer.from(line)
  const record = readParts(bytes)
  if (record === null) throw new Error('not a record')
  return eventLines(record, { terminal }).toString('utf8')
}

describe('event lines', () => {
  test('hold each event as it was sent: nothing is rounded, reordered or unescaped', () => {
    const first = '{"n":12345678901234567890,"x":1e999 , "s":"\\ud83d \\u00e9 é","a":[1.10,{}]}'
    expect(linesOf(`${HEAD},"sdk_version":"2.1.0","events":[${first}, {"b":"]}"}]}`)).toBe(
      `${SHOWN},"sdk_version":"2.1.0","event":${first}}\n${SHOWN},"sdk_version":"2.1.0","event":{"b":"]}"}}\n`,
    )
  })

  test('say null where the request named no SDK version', () => {
    expect(linesOf(`${HEAD},"events":[{"a":1}],"extra":{"events":[2],"app_id":"x"}}`)).toBe(
      `${SHOWN},"sdk_version":null,"event":{"a":1}}\n`,
    )
  })

  test('hold the trace where the request had one', () => {
    expect(linesOf(`${HEAD},"sdk_version":"2","trace":"00-a-b-01","events":[{"a":1}],"extra":{"trace":"x"}}`)).toBe(
      `${SHOWN},"sdk_version":"2","trace":"00-a-b-01","event":{"a":1}}\n`,
    )
  })

  test('are there for a body of the deepest kind, whose other members a record holds one level deeper', () => {
    const extra = `${'['.repeat(63)}${']'.repeat(63)}`
    expect(linesOf(`${HEAD},"events":[{"a":1}],"extra":{"x":${extra}}}`)).toContain('"event":{"a":1}')
  })

  test('for a terminal are without the white space between tokens, and keep every byte of a token', () => {
    const sent = '{ "a b" :\t"x  \\" { , } \\\\" ,\r "n": 1.10 , "é": [ 1 , { } ] , "s":"  " }'
    const bytes = Buffer.from(`${HEAD},"events":[ ${sent} , {} ]}`)
    const record = readParts(bytes)
    if (record === null) throw new Error('not a record')
    expect(eventLines(record, { terminal: true }).toString('utf8')).toBe(
      `${SHOWN},"sdk_version":null,"event":{"a b":"x  \\" { , } \\\\","n":1.10,"é":[1,{}],"s":"  "}}\n` +
        `${SHOWN},"sdk_version":null,"event":{}}\n`,
    )
  })

  test('have the control characters that JSON allows escaped for a terminal, which obeys them, and not for a pipe', () => {
    const sent = '{"s":"\u007f \u0080\u009b31m\u009d\u202e\u2066 \u00a0é\u{1f69b}","\u0085":"\\u009b"}'
    const shown = '{"s":"\\u007f \\u0080\\u009b31m\\u009d\\u202e\\u2066 \u00a0é\u{1f69b}","\\u0085":"\\u009b"}'
    const stored = `${HEAD},"sdk_version":"\u009b","events":[${sent}]}`
    expect(linesOf(stored)).toBe(`${SHOWN},"sdk_version":"\u009b","event":${sent}}\n`)
    expect(linesOf(stored, true)).toBe(`${SHOWN},"sdk_version":"\\u009b","event":${shown}}\n`)
    expect(JSON.parse(shown)).toEqual(JSON.parse(sent))
  })

  test('are none for an empty batch', () => {
    expect(linesOf(`${HEAD},"events":[]}`)).toBe('')
  })
})

test('the app of a record is read, and what is no record is told apart', () => {
  expect(readParts(Buffer.from(`${HEAD},"events":[]}`))?.appId).toBe('demo')
  for (const line of ['', 'garbage', '{}', '[1]', '{"v":1,"batch_id":"b"}'])
    expect(readParts(Buffer.from(line))).toBeNull()
})
