// How much of the stream an example takes into its memory at once: an app may send events of half a megabyte.

import { afterEach, beforeEach, expect, it } from 'vitest'
import { openStream } from '../../examples/shared/stream.js'
import { eventText, publishTexts, recordText } from '../support/examples.ts'
import { addStream } from '../support/jetstream.ts'
import { type NatsServer, startNats } from '../support/nats.ts'

/** What a chunk has before no more is asked for, and the 100 messages that were asked for at last. */
const MOST_BYTES = 16_777_216 + 100 * 900_500
const MESSAGES = 300

let nats: NatsServer

beforeEach(async () => {
  nats = await startNats()
  await addStream(nats.url)
})
afterEach(() => nats.stop())

it('is bounded in bytes, and each message comes once and in order', async () => {
  const lines: string[] = []
  const texts = Array.from({ length: MESSAGES }, (_, index) => {
    const bytes = index % 3 === 0 ? 10 : 900_000
    return recordText({ events: [eventText(`n${index}`, `,"filler":"${'x'.repeat(bytes)}"`)] })
  })
  await publishTexts(nats.url, texts)
  const log = (line: string) => void lines.push(line)
  const source = await openStream({
    url: nats.url,
    credentials: undefined,
    consumer: 'c',
    subjects: [],
    from: undefined,
    log,
  })
  const stopping = new AbortController()
  const names: unknown[] = []
  const chunkBytes: number[] = []
  for await (const chunk of source.read(null, stopping.signal)) {
    chunkBytes.push(chunk.lines.reduce((sum, { text }) => sum + text.length, 0))
    for (const { text } of chunk.lines) names.push(/"name":"(n\d+)"/.exec(text)?.[1])
    chunk.ack()
    if (names.length >= MESSAGES) stopping.abort()
  }
  await source.close()
  expect(Math.max(...chunkBytes)).toBeLessThanOrEqual(MOST_BYTES)
  expect(names).toEqual(texts.map((_, index) => `n${index}`))
  expect(lines).toEqual([])
})
