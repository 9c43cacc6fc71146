// Looks for one batch in the journal's files while another process may write them. Records lie in the order of their
// times, so bisection finds where to begin.

import { type FileHandle, open } from 'node:fs/promises'
import { basename } from 'node:path'
import { errorCode } from '../../lib/errors.ts'
import {
  type Finding,
  type Found,
  type FoundRecord,
  readFoundRecord,
  type SearchOptions,
  startOfRecord,
} from '../find/finding.ts'
import { notFound } from '../find/not-found.ts'
import type { Question, Span } from '../find/question.ts'
import { unfilled } from './direct-writes.ts'
import { journalDirectory, listSegments, type Segment } from './segments.ts'

/** Bisection ends when the place is known this well. */
const BLOCK_BYTES = 64 * 1024
/** Searching one takes about a millisecond, so that a service that searches still answers. */
const CHUNK_BYTES = 1024 * 1024
/** At least twice the longest record. A line that does not fit is not a record. */
const MAX_LINE_BYTES = 2 * 1024 * 1024
const NEWLINE = 10
/** From the start of a line to the end of its time. */
const MAX_HEAD_BYTES = 256
const ANY_RECORD = Buffer.from('\n{"v":1,"batch_id":"')
const HEAD = /^\{"v":1,"batch_id":"[-0-9a-f]{36}","app_id":"[A-Za-z0-9_-]{1,64}","received_at":"([^"]{24})"/

/** Rejects where a file cannot be read. A segment that is removed meanwhile, and a torn last line, count as not there. */
export async function findInJournal(
  dataDirectory: string,
  question: Question,
  options: SearchOptions = {},
): Promise<Finding> {
  const search = new JournalSearch(await listSegments(journalDirectory(dataDirectory)), question, options)
  try {
    return await search.run()
  } finally {
    await search.close()
  }
}

class JournalSearch {
  readonly #segments: readonly Segment[]
  readonly #question: Question
  readonly #options: SearchOptions
  readonly #wanted: Buffer
  readonly #block = Buffer.allocUnsafe(BLOCK_BYTES)
  readonly #chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES)
  #open: { readonly number: number; readonly handle: FileHandle } | null = null
  #bytesRead = 0
  #reachedMs: number

  constructor(segments: readonly Segment[], question: Question, options: SearchOptions) {
    this.#segments = segments
    this.#question = question
    this.#options = options
    this.#wanted = Buffer.from(`\n${startOfRecord(question.batchId)}`)
    this.#reachedMs = question.spans[0].fromMs
  }

  async run(): Promise<Finding> {
    const reachesBackToMs = await this.#timeFrom(0)
    for (const span of this.#question.spans) {
      const found = await this.#searchSpan(span)
      if (found !== null) return found
      if (this.#isStopped) return notFound(this.#question, { reachesBackToMs, stoppedAtMs: this.#reachedMs })
    }
    return notFound(this.#question, { reachesBackToMs, stoppedAtMs: null })
  }

  async close(): Promise<void> {
    await this.#open?.handle.close()
    this.#open = null
  }

  get #isStopped(): boolean {
    return this.#options.signal?.aborted === true
  }

  async #searchSpan({ fromMs, toMs }: Span): Promise<Found | null> {
    let from = await this.#placeBefore(fromMs)
    for (const segment of this.#segments) {
      if (from >= segment.bytes) {
        from -= segment.bytes
        continue
      }
      const result = await this.#scan(segment, from, toMs)
      if (result !== 'go on') return result
      from = 0
    }
    return null
  }

  /** A place in all segments together, before which no record is as young as `timeMs`. */
  async #placeBefore(timeMs: number): Promise<number> {
    let low = 0
    let high = this.#segments.reduce((bytes, segment) => bytes + segment.bytes, 0)
    while (high - low > BLOCK_BYTES && !this.#isStopped) {
      const middle = Math.floor((low + high) / 2)
      const foundMs = await this.#timeFrom(middle)
      if (foundMs !== null && foundMs < timeMs) low = middle
      else high = middle
    }
    return low
  }

  /** The time of the first record that begins at this place in all segments together, or after it; null: there is none. */
  async #timeFrom(place: number): Promise<number | null> {
    let from = place
    for (const segment of this.#segments) {
      if (from >= segment.bytes) {
        from -= segment.bytes
        continue
      }
      const handle = await this.#openSegment(segment)
      const timeMs = handle === null ? null : await firstTime(handle, from, this.#block)
      if (timeMs !== null) return timeMs
      from = 0
    }
    return null
  }

  /** 'go on': the segment has been read, and the next one is in the span too. */
  async #scan(segment: Segment, from: number, toMs: number): Promise<Found | null | 'go on'> {
    const handle = await this.#openSegment(segment)
    if (handle === null) return 'go on'
    const chunk = this.#chunk
    // The end of a chunk is read again, since a line that begins there may be the one.
    for (let at = from; ; at += CHUNK_BYTES - MAX_HEAD_BYTES) {
      if (this.#isStopped) return null
      const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, at)
      const read = chunk.subarray(0, bytesRead)
      const found = await this.#look(segment, handle, read, at)
      if (found !== null) return found
      this.#bytesRead += bytesRead
      const timeMs = timeIn(read, at)
      if (timeMs !== null) this.#reachedMs = timeMs
      this.#options.onProgress?.({ unit: 'bytes', read: this.#bytesRead, reachedMs: this.#reachedMs })
      if (timeMs !== null && timeMs > toMs) return null
      if (bytesRead < CHUNK_BYTES) return 'go on'
    }
  }

  async #look(segment: Segment, handle: FileHandle, read: Buffer, at: number): Promise<Found | null> {
    for (const start of startsOf(read, at, this.#wanted)) {
      const offset = at + start
      const line = await lineAt(handle, offset)
      if (line === null) continue
      const record = readFoundRecord(unfilled(line), this.#question.batchId)
      if (record !== null) return foundAt(segment, offset, line.length, record)
    }
    return null
  }

  /** null: it is gone. */
  async #openSegment({ number, path }: Segment): Promise<FileHandle | null> {
    if (this.#open?.number === number) return this.#open.handle
    await this.close()
    try {
      const handle = await open(path, 'r')
      this.#open = { number, handle }
      return handle
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return null
      throw error
    }
  }
}

function foundAt({ path }: Segment, offsetBytes: number, lengthBytes: number, record: FoundRecord): Found {
  return {
    kind: 'found',
    record,
    place: { kind: 'journal', segment: basename(path), offsetBytes, lengthBytes },
    consumers: [],
  }
}

/** Where in `read` lines begin like `wanted`, which begins with a newline. `at`: where `read` begins in the file. */
function* startsOf(read: Buffer, at: number, wanted: Buffer): Generator<number> {
  const first = wanted.subarray(1)
  if (at === 0 && read.subarray(0, first.length).equals(first)) yield 0
  for (let found = read.indexOf(wanted); found >= 0; found = read.indexOf(wanted, found + 1)) yield found + 1
}

/** The time of the first record that begins in `read`; null: there is none. */
function timeIn(read: Buffer, at: number): number | null {
  for (const start of startsOf(read, at, ANY_RECORD)) {
    const timeMs = timeOfLine(read, start)
    if (timeMs !== null) return timeMs
  }
  return null
}

function timeOfLine(bytes: Buffer, start: number): number | null {
  const text = HEAD.exec(bytes.toString('latin1', start, start + MAX_HEAD_BYTES))?.[1]
  const timeMs = text === undefined ? Number.NaN : Date.parse(text)
  return Number.isNaN(timeMs) ? null : timeMs
}

/** The time of the first record that begins at `from` or after it; null: the file has none. */
async function firstTime(handle: FileHandle, from: number, block: Buffer): Promise<number | null> {
  // From the byte before, which is a newline where a line begins at `from`.
  for (let at = Math.max(0, from - 1); ; at += BLOCK_BYTES - MAX_HEAD_BYTES) {
    const { bytesRead } = await handle.read(block, 0, BLOCK_BYTES, at)
    const timeMs = timeIn(block.subarray(0, bytesRead), at)
    if (timeMs !== null || bytesRead < BLOCK_BYTES) return timeMs
  }
}

/** The line that begins there, without its newline; null: it is torn, or too long for a record. */
async function lineAt(handle: FileHandle, offset: number): Promise<Buffer | null> {
  const pieces: Buffer[] = []
  for (let at = offset; at < offset + MAX_LINE_BYTES; ) {
    const piece = Buffer.allocUnsafe(BLOCK_BYTES)
    const { bytesRead } = await handle.read(piece, 0, BLOCK_BYTES, at)
    const newlineAt = piece.subarray(0, bytesRead).indexOf(NEWLINE)
    if (newlineAt >= 0) return Buffer.concat([...pieces, piece.subarray(0, newlineAt)])
    if (bytesRead === 0) return null
    pieces.push(piece.subarray(0, bytesRead))
    at += bytesRead
  }
  return null
}
