// What `sluice find` prints.

import { expect, test } from 'vitest'
import { formatFinding, progressText } from '../../../../src/cli/find/find.ts'
import type { Finding } from '../../../../src/queue/find/finding.ts'
import { readFoundRecord } from '../../../../src/queue/find/finding.ts'
import { readQuestion } from '../../../../src/queue/find/question.ts'
import { makeBatch } from '../../../support/batches.ts'

const NOW = Date.parse('2026-11-20T12:00:00.000Z')

function shown(finding: Finding, id: string, withEvents = false): string {
  const reading = readQuestion({ id }, NOW)
  if (reading.kind === 'mistake') throw new Error(reading.mistake)
  const shell = { colour: false, clock: () => NOW }
  return formatFinding(finding, reading.question, { config: { dataDirectory: 'data' }, shell, withEvents }).toString()
}

test('a batch of the stream is a sentence, a line of time, and what each consumer has had', () => {
  const members = ',"sdk_version":"2.1\\u001b[31m"'
  const { id, line } = makeBatch({ receivedAtMs: NOW - 90_000, members })
  const record = readFoundRecord(Buffer.from(line.trimEnd()), id)
  if (record === null) throw new Error('not a record')
  const stream = { kind: 'stream', stream: 'SLUICE_EVENTS', subject: 'sluice.events.3' } as const
  const finding: Finding = {
    kind: 'found',
    record,
    place: { ...stream, sequence: 8_120_441, storedAtMs: NOW - 89_000 },
    consumers: [
      { name: 'a', state: 'acknowledged' },
      { name: 'b', state: 'delivered' },
      { name: 'c', state: 'waiting' },
      { name: 'd', state: 'skipped' },
      { name: 'e', state: 'other subject' },
    ],
  }
  const text = `Batch ${id} of app demo is stored: 1 event, sdk_version "2.1\\u001b[31m", accepted 1.5 min ago.
received 2026-11-20T11:58:30.000Z → stored 2026-11-20T11:58:31.000Z as message 8120441 of SLUICE_EVENTS (sluice.events.3)

consumer
a         has acknowledged it
b         was sent it; whether it has acknowledged it is not known
c         was not sent it yet
d         was made to begin behind it
e         reads other subjects
`
  expect(shown(finding, id)).toBe(text)
  const head = `{"batch_id":"${id}","app_id":"demo","received_at":"2026-11-20T11:58:30.000Z"`
  expect(shown(finding, id, true)).toBe(`${text}\n${head},"sdk_version":"2.1\\u001b[31m","event":{"n":1}}\n`)
  expect(shown({ ...finding, consumers: [] }, id)).toContain('The stream has no durable consumer.')
})

test('a line that holds what no record of the service has is none, so that it reaches no terminal', () => {
  const { id, line } = makeBatch({ receivedAtMs: NOW })
  const text = line.trimEnd()
  expect(readFoundRecord(Buffer.from(text), id)).not.toBeNull()
  for (const other of [
    text.replace('"demo"', '"\\u001b[31m"'),
    text.replace('2026-11-20T12:00:00.000Z', '\\u001b[31m'),
    text.replace('[{"n":1}]', '1'),
    text.slice(0, -1),
    'null',
  ]) {
    expect(readFoundRecord(Buffer.from(other), id), other).toBeNull()
  }
})

test('progress is told in messages or megabytes, with the time that was reached', () => {
  const reachedMs = NOW
  expect(progressText({ unit: 'messages', read: 1_234_567, reachedMs })).toBe(
    '1,234,567 messages read, 2026-11-20T12:00:00.000Z reached',
  )
  expect(progressText({ unit: 'bytes', read: 1_234_567_890, reachedMs })).toContain('1,235 MB read')
})
