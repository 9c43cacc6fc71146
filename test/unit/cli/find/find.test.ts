// What `sluice find` prints.

import { expect, test } from 'vitest'
import { formatFinding, progressText, refusalText } from '../../../../src/cli/find/find.ts'
import type { NotFoundReason } from '../../../../src/contract/admin/words.ts'
import { readRecord } from '../../../../src/contract/record/record-members.ts'
import type { Finding, StreamPlace } from '../../../../src/queue/find/finding.ts'
import { type Asked, readQuestion } from '../../../../src/queue/find/question.ts'
import { makeBatch } from '../../../support/batches.ts'

const NOW = Date.parse('2026-11-20T12:00:00.000Z')

const SHELL = { colour: false, terminal: false, clock: () => NOW }

function shown(finding: Finding, asked: Asked, withEvents = false): string {
  const reading = readQuestion(asked, NOW)
  if (reading.kind === 'mistake') throw new Error(reading.mistake)
  const format = { config: { dataDirectory: 'data', spool: null }, shell: SHELL, asked, withEvents }
  return formatFinding(finding, reading.question, format).toString()
}

test('a batch of the stream is a sentence, a line of time, and what each consumer has had', () => {
  const members = ',"sdk_version":"2.1\\u001b[31m"'
  const { id, line } = makeBatch({ receivedAtMs: NOW - 90_000, members })
  const record = readRecord(Buffer.from(line.trimEnd()))
  if (record === null) throw new Error('not a record')
  const stream = { kind: 'stream', stream: 'SLUICE_EVENTS', subject: 'sluice.events.3' } as const
  const place: StreamPlace = { ...stream, sequence: 8_120_441, storedAtMs: NOW - 89_000, isSpooled: false }
  const finding: Finding = {
    kind: 'found',
    record,
    place,
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
d         starts after this message (never received it)
e         reads other subjects
`
  expect(shown(finding, { id })).toBe(text)
  const head = `{"batch_id":"${id}","app_id":"demo","received_at":"2026-11-20T11:58:30.000Z"`
  expect(shown(finding, { id }, true)).toBe(`${text}\n${head},"sdk_version":"2.1\\u001b[31m","event":{"n":1}}\n`)
  expect(shown({ ...finding, consumers: [] }, { id })).toContain('The stream has no durable consumer.')
  const spooled: Finding = { ...finding, place: { ...place, isSpooled: true } }
  expect(shown(spooled, { id })).toContain(' (sluice.events.3), and in the spool of a node until then\n')
})

test('a line that holds what no record of the service has is none, so that it reaches no terminal', () => {
  const { line } = makeBatch({ receivedAtMs: NOW })
  const text = line.trimEnd()
  expect(readRecord(Buffer.from(text))).not.toBeNull()
  for (const other of [
    text.replace('"demo"', '"\\u001b[31m"'),
    text.replace('2026-11-20T12:00:00.000Z', '\\u001b[31m'),
    text.replace('[{"n":1}]', '1'),
    text.slice(0, -1),
    'null',
  ]) {
    expect(readRecord(Buffer.from(other)), other).toBeNull()
  }
})

const KEY = '0b9e3a52-6f0c-4d7e-9a55-2f8c1d3e4b6a'
const BY_KEY = { app: 'shop', key: KEY }
const { id: ID } = makeBatch({ receivedAtMs: NOW - 90_000 })

const missing = (reason: NotFoundReason): Finding => ({
  kind: 'not found',
  reason,
  searched: { fromMs: NOW - 3_600_000, beforeMs: NOW },
  reachesBackToMs: reason === 'empty' ? null : NOW - 7_200_000,
})

test('a batch that is not there is a sentence with the times, and one that says why', () => {
  const reasons = ['empty', 'future', 'expired', 'narrowed', 'absent', 'stopped'] as const
  const advice = new Set<string>()
  for (const reason of reasons) {
    for (const asked of [{ id: ID }, BY_KEY]) {
      const [verdict, ...words] = shown(missing(reason), asked).split('\n')
      expect(verdict).toMatch(
        /^Batch \S+ was not found: searched from 2026-11-20T11:00:00.000Z to 2026-11-20T12:00:00.000Z/,
      )
      expect(verdict.includes('the queue reaches back to 2026-11-20T10:00:00.000Z')).toBe(reason !== 'empty')
      advice.add(words.join('\n'))
    }
  }
  expect(advice.size).toBeGreaterThanOrEqual(reasons.length + 2)
})

test('a search that ended early has the command that reads on', () => {
  const command = (asked: Asked, withEvents = false): string | undefined =>
    shown(missing('stopped'), asked, withEvents).split('\n').at(-2)?.trim()
  const before = '--before 2026-11-20T11:00:00.001Z'
  expect(command({ id: ID })).toBe(`sluice find ${ID} ${before}`)
  expect(command(BY_KEY, true)).toBe(`sluice find --app shop --key ${KEY} ${before} --events`)
  const since = '--since 2026-11-17T12:00:00.000Z'
  expect(command({ ...BY_KEY, since: '3d', before: '2h' })).toBe(
    `sluice find --app shop --key ${KEY} ${since} ${before}`,
  )
})

test('a refusal is a sentence and what is known of it, and steers no terminal', () => {
  const refusal = {
    time: '2026-11-20T11:58:30.000Z',
    node: 'one-7',
    request_id: ID,
    app_id: 'shop',
    code: 'validation_failed',
    path: 'events[0].name',
    shape: 'absent',
    message: 'events[0].name: required',
    sdk_version: '2.1\u009b31m\u202e',
    later_member: 'x',
  }
  expect(
    refusalText(refusal, SHELL),
  ).toBe(`Request ${ID} of app shop was refused at 2026-11-20T11:58:30.000Z, 1.5 min ago: validation_failed.
path         events[0].name
shape        absent
message      events[0].name: required
sdk_version  2.1?31m?
node         one-7
`)
  const ours = {
    ...refusal,
    app_id: null,
    code: 'service_overloaded',
    reason: 'ring_full',
    path: null,
    shape: null,
    sdk_version: null,
  }
  const text = refusalText(ours, SHELL)
  expect(text).toContain('of no known app was refused')
  expect(text).toMatch(/^reason +ring_full$/m)
  expect(text).not.toContain('null')
})

test('progress is told in megabytes, with the time that was reached', () => {
  expect(progressText({ bytesRead: 1_234_567_890, reachedMs: NOW })).toBe(
    '1,235 MB read, back to 2026-11-20T12:00:00.000Z',
  )
})
