// The loop of every example: a chunk of lines from the queue, its records into the store, then the acknowledgement.

import { setTimeout as sleep } from 'node:timers/promises'
import { reasonOf } from './reason.js'
import { parseRecord } from './record.js'

/**
 * @typedef {import('./record.js').QueueRecord} QueueRecord
 * @typedef {import('./stream.js').Position} Position
 *
 * @typedef {object} Sink
 * @property {() => Position | null} position
 * @property {(records: readonly QueueRecord[], end: Position, isWhole?: boolean) => Promise<number>} write
 *
 * @typedef {object} ConsumeOptions
 * @property {import('./stream.js').Source} source
 * @property {Sink} sink
 * @property {import('./dead-letters.js').DeadLetters} deadLetters
 * @property {(storedEvents: number) => Promise<void>} afterChunk  Called about once a second, also while nothing comes.
 * @property {AbortSignal} signal
 * @property {(message: string) => void} log
 * @property {number} [tries]
 * @property {number} [pauseMs]     Before the second try; then twice as long each time.
 */

/**
 * Until the signal. Rejects where the sink takes nothing at all: its process should then end and be started again.
 *
 * @param {ConsumeOptions} options
 */
export async function consume(options) {
  const { source, sink, deadLetters, afterChunk, signal } = options
  for await (const { lines, position, ack } of source.read(sink.position(), signal)) {
    const records = []
    for (const line of lines) {
      const parsed = parseRecord(line)
      if ('problem' in parsed) await deadLetters.add(parsed.problem, line)
      else records.push(parsed.record)
    }
    const isNews = position.sequence !== sink.position()?.sequence || position.source !== sink.position()?.source
    const storedEvents = lines.length > 0 || isNews ? await writeAll(records, position, options) : 0
    ack()
    await afterChunk(storedEvents)
  }
}

/**
 * All records at once. If that fails for good, each alone, and what fails alone becomes a dead letter.
 *
 * @param {readonly QueueRecord[]} records
 * @param {Position} end
 * @param {ConsumeOptions} options
 */
async function writeAll(records, end, { sink, deadLetters, signal, log, tries = 5, pauseMs = 200 }) {
  const stored = await tryWrite(records, true)
  if (typeof stored === 'number') return stored
  let storedEvents = 0
  for (const record of records) {
    const result = await tryWrite([record], false)
    if (typeof result === 'number') {
      storedEvents += result
      continue
    }
    // A sink that does not take nothing either has another trouble than this record: then this throws.
    await sink.write([], end, false)
    await deadLetters.add(`not stored after ${tries} tries: ${result}`, record.line)
  }
  await sink.write([], end)
  return storedEvents

  /**
   * @param {readonly QueueRecord[]} some
   * @param {boolean} isWhole
   * @returns {Promise<number | string>} events that were stored, or why none were
   */
  async function tryWrite(some, isWhole) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await sink.write(some, end, isWhole)
      } catch (error) {
        const reason = reasonOf(error)
        log(`try ${attempt} of ${tries} to store ${some.length} records: ${reason}`)
        // Nothing is given up only because the process is to end.
        signal.throwIfAborted()
        if (attempt === tries) return reason
        await sleep(pauseMs * 2 ** (attempt - 1), undefined, { signal })
      }
    }
  }
}
