// What the fuzzer takes for an answer of the service.

import { expect, test } from 'vitest'
import { parseAnswers, unsound } from '../../../load/fuzz/answers.js'

function judged(status: string, body: object | null): string | null {
  const text = body === null ? '' : JSON.stringify(body)
  const windows = ['Limit: 100', 'Remaining: 100', `Reset: ${Math.ceil(Date.now() / 60_000) * 60}`]
  const lines = [
    `HTTP/1.1 ${status}`,
    ...windows.map((line) => `X-RateLimit-${line}`),
    'Content-Type: application/json',
    `Content-Length: ${text.length}`,
  ]
  const { answers } = parseAnswers(Buffer.from(`${lines.join('\r\n')}\r\n\r\n${text}`), { ended: true, mayHead: false })
  return unsound(answers[0], { mayHead: false })
}

test.each(['400 Bad Request', '431 Request Header Fields Too Large', '505 HTTP Version Not Supported'])(
  'a head that cannot be read may be answered %s',
  (status) => {
    expect(judged(status, { error: 'validation_failed', message: 'the request line' })).toBeNull()
    expect(judged(status, { error: 'not_found', message: 'no such path' })).toContain('status and error code')
    expect(judged(status, null)).toContain('JSON object')
  },
)

test('a status that no code has is none of the service', () => {
  expect(judged('418 Teapot', { error: 'validation_failed', message: 'no' })).toContain('status and error code')
})
