// Reads the journal of a service on this machine, as it grows, from the position that the sink has stored.
// DATA_DIR/journal has segments 000000000001.ndjson and so on, one record a line; the oldest may be removed at any time.

import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseTime } from './record.js'

/** The longest record has some 600 KB. What has no newline within this is no record. */
const BUFFER_BYTES = 2 * 1024 * 1024
const POLL_MS = 200
const NEWLINE = 10
/** As much of a line as tells it from another: it holds the batch_id. */
const MARK_CHARACTERS = 60
/** A position is one number: the segment's number, and in its lower 32 bits where the last line begins. */
const OFFSET_BITS = 32n

/**
 * @typedef {import('./stream.js').Chunk} Chunk
 * @typedef {import('./stream.js').Position} Position
 */

/**
 * @param {{ folder: string, from: string | undefined, log: (message: string) => void }} options  `from`: leaves out what was
 *   received before, where the sink has no position.
 * @returns {import('./stream.js').Source}
 */
export function openJournal({ folder, from, log }) {
  const buffer = Buffer.allocUnsafe(BUFFER_BYTES)

  /**
   * @param {Position | null} position
   * @param {AbortSignal} signal
   * @returns {AsyncGenerator<Chunk>}
   */
  async function* read(position, signal) {
    const fromMs = position === null && from !== undefined ? Date.parse(from) : -Infinity
    let segment = position === null ? 0 : Number(position.sequence >> OFFSET_BITS)
    let offset = position === null ? 0 : Number(position.sequence & 0xffffffffn)
    let mark = position?.mark ?? ''
    while (!signal.aborted) {
      // Listed before the last look: the service has left a segment for good once it has begun the next.
      const segments = await listSegments(folder)
      if (!segments.includes(segment)) {
        const next = segments.find((number) => number > segment) ?? segments[0]
        if (next !== undefined && mark !== '') {
          log(`segment ${segment} of the journal is gone: going on with segment ${next}`)
        }
        if (next === undefined) {
          await sleep(POLL_MS, undefined, { signal }).catch(() => {})
          continue
        }
        segment = next
        offset = 0
        mark = ''
      }
      const found = await readLines(segment, offset, mark)
      if (found === 'changed') {
        // A write that failed is cut back, and another line may stand there now. The sink knows what it has by batch_id.
        log(`segment ${segment} of the journal was cut back: reading it from its start`)
        offset = 0
        mark = ''
        continue
      }
      const last = found.lines.at(-1)
      offset = found.offset
      mark = found.mark
      yield {
        lines: found.lines
          .filter(({ text }) => (receivedMs(text) ?? Infinity) >= fromMs)
          .map(({ at, text }) => ({ partition: 'journal', sequence: positionOf(segment, at), text })),
        position: { source: 'journal', sequence: positionOf(segment, offset), mark },
        ack: () => {},
      }
      if (last !== undefined) continue
      const following = segments.find((number) => number > segment)
      if (following === undefined) await sleep(POLL_MS, undefined, { signal }).catch(() => {})
      else {
        segment = following
        offset = 0
        mark = ''
      }
    }
  }

  /**
   * Whole lines of one segment behind the one that begins at `lastAt`, which is read again and must be as it was.
   *
   * @param {number} segment
   * @param {number} lastAt
   * @param {string} mark  Empty: there was none yet.
   */
  async function readLines(segment, lastAt, mark) {
    /** @type {{ at: number, text: string }[]} */
    const lines = []
    const path = join(folder, `${String(segment).padStart(12, '0')}.ndjson`)
    const file = await open(path, 'r').catch(noneIfAbsent)
    if (file === null) return { lines, offset: lastAt, mark }
    let offset = lastAt
    try {
      const { bytesRead } = await file.read(buffer, 0, buffer.length, lastAt)
      let start = 0
      if (mark !== '') {
        const end = buffer.subarray(0, bytesRead).indexOf(NEWLINE)
        if (end < 0 || markOf(buffer.toString('utf8', 0, end)) !== mark) return 'changed'
        start = end + 1
      }
      for (;;) {
        const end = buffer.subarray(0, bytesRead).indexOf(NEWLINE, start)
        if (end < 0) break
        lines.push({ at: lastAt + start, text: buffer.toString('utf8', start, end) })
        offset = lastAt + start
        start = end + 1
      }
      const final = lines.at(-1)
      if (final === undefined && bytesRead === buffer.length) {
        const text = buffer.toString('utf8', start, start + MARK_CHARACTERS)
        return await passOver(file, lastAt + start, text)
      }
      return {
        lines: lines.filter(({ text }) => text !== ''),
        offset,
        mark: final === undefined ? mark : markOf(final.text),
      }
    } finally {
      await file.close()
    }
  }

  /**
   * A line that does not fit the buffer: its beginning stands for it, and the next line is read from where it begins.
   *
   * @param {import('node:fs/promises').FileHandle} file
   * @param {number} at
   * @param {string} text
   */
  async function passOver(file, at, text) {
    for (let from = at; ; from += buffer.length) {
      const { bytesRead } = await file.read(buffer, 0, buffer.length, from)
      const end = buffer.subarray(0, bytesRead).indexOf(NEWLINE)
      if (end >= 0) return { lines: [{ at, text }], offset: from + end + 1, mark: '' }
      if (bytesRead === 0) return { lines: [], offset: at, mark: '' }
    }
  }

  return { read, close: async () => {} }
}

/** @param {number} segment @param {number} offset */
function positionOf(segment, offset) {
  return (BigInt(segment) << OFFSET_BITS) + BigInt(offset)
}

/** @param {string} text */
function markOf(text) {
  return `${text.slice(0, MARK_CHARACTERS)} ${text.length}`
}

/** @param {string} text */
function receivedMs(text) {
  const found = /"received_at":"([^"]{10,40})"/.exec(text.slice(0, 300))
  return found === null ? null : parseTime(found[1])
}

/** Numbers of the segments, oldest first. @param {string} folder */
async function listSegments(folder) {
  const names = (await readdir(folder).catch(noneIfAbsent)) ?? []
  return names
    .filter((name) => /^\d{12}\.ndjson$/.test(name))
    .map((name) => Number(name.slice(0, 12)))
    .sort((left, right) => left - right)
}

/** @param {NodeJS.ErrnoException} error @returns {null} */
function noneIfAbsent(error) {
  if (error.code === 'ENOENT') return null
  throw error
}
