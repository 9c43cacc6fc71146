import { describe, expect, it } from 'vitest'
import { readSpoolLine, type SpoolMark, spoolLine } from '../../../../src/contract/record/spool-line.ts'
import { makeRecord } from '../../../support/journal.ts'

const PLAIN: SpoolMark = { state: 'plain', messageId: null }

function roundTrip(record: ReturnType<typeof makeRecord>, mark: SpoolMark) {
  const line = spoolLine(record.line, record.charge, mark)
  expect(line.at(-1)).toBe(10)
  return { line, read: readSpoolLine(line.subarray(0, -1)) }
}

describe('a line of the spool', () => {
  it('gives back the record byte for byte, with its charge and what is known of it', () => {
    const record = makeRecord({ events: 3, keyed: true, appId: 'an_app' })
    for (const mark of [
      PLAIN,
      { state: 'share', messageId: null },
      { state: 'doubt', messageId: 'abcdef012345-77' },
      { state: 'doubt', messageId: `${record.batchId}.2` },
    ] as const) {
      const { read } = roundTrip(record, mark)
      expect(read?.line.equals(Buffer.from(record.line))).toBe(true)
      expect(read).toMatchObject({ ...mark, charge: record.charge, head: { batchId: record.batchId, events: 3 } })
    }
  })

  it('is a record of the queue for every other reader', () => {
    const { line } = roundTrip(makeRecord(), PLAIN)
    expect(JSON.parse(line.toString())).toMatchObject({ v: 1, app_id: 'demo', spool: '30000000 30000000 plain' })
  })

  it('is read where spaces fill its block', () => {
    const record = makeRecord()
    const line = spoolLine(record.line, record.charge, PLAIN)
    const padded = Buffer.from(line.toString().replace(/\}\n$/, `${' '.repeat(100)}}\n`))
    expect(readSpoolLine(padded.subarray(0, -1))?.line.equals(Buffer.from(record.line))).toBe(true)
  })

  it('is not mistaken where a client sends such a member itself', () => {
    const record = makeRecord()
    const text = Buffer.from(record.line).toString().replace(/\}\n$/, ',"extra":{"a":1,"spool":"1 1 doubt x"}}\n')
    const { read } = roundTrip({ ...record, line: Buffer.from(text) }, PLAIN)
    expect(read?.line.toString()).toBe(text)
    expect(read?.state).toBe('plain')
  })

  it('is none without its member, cut short, or with a member of another form', () => {
    const record = makeRecord()
    const line = spoolLine(record.line, record.charge, PLAIN).subarray(0, -1)
    expect(readSpoolLine(Buffer.from(record.line).subarray(0, -1))).toBe(null)
    for (let end = 0; end < line.length; end += 1) expect(readSpoolLine(line.subarray(0, end))).toBe(null)
    expect(readSpoolLine(Buffer.from(line.toString().replace('plain', 'other')))).toBe(null)
  })
})
