// The newest records of a spool and of the stream, as of one queue.

import { expect, test } from 'vitest'
import { joined } from '../../../src/inspect/find/newest-spooled.ts'
import { type Batch, makeBatch } from '../../support/batches.ts'

const NOW = Date.parse('2026-11-20T12:00:00.000Z')
const MINUTE_MS = 60_000
const KEY = '6f9619ff-8b86-4d11-b42d-00c04fc964ff'

async function* listOf(...batches: readonly Batch[]): AsyncGenerator<readonly Buffer[]> {
  for (const { line } of batches) yield [Buffer.from(line.trimEnd())]
}

async function shown(spooled: readonly Batch[], stored: readonly Batch[]): Promise<string[]> {
  const lines: string[] = []
  for await (const list of joined(listOf(...spooled), listOf(...stored)))
    lines.push(...list.map((line) => `${line.toString()}\n`))
  return lines
}

test('come by their times, each once, and two batches with one key are two', async () => {
  const older = makeBatch({ key: KEY, receivedAtMs: NOW - 10 * MINUTE_MS })
  const between = makeBatch({ receivedAtMs: NOW - 5 * MINUTE_MS })
  const newer = makeBatch({ key: KEY, receivedAtMs: NOW })
  // What was sent is in the spool too, until NATS has synced it.
  expect(await shown([newer, between], [between, older])).toEqual([newer.line, between.line, older.line])
})
