// What lies beside a segment, 000000000001.ndjson, so that damage to it is noticed, and a batch is found without reading
// all of it. The segment itself is records and nothing else. Both files are text, a line each for what was written:
//
//   000000000001.commits   OFFSET LENGTH CRC CHECK     one write to the segment: whole lines, at most 2 MiB and a block,
//                                                      whose CRC32C is CRC. A write that was not synced has no line.
//   000000000001.ids       FROM END IDS CHECK          the records in the bytes [FROM, END): for each the last four bytes
//                                                      of its batch id and its offset, two uint32 (little-endian); base64
//
// Numbers are decimal, but for CRC and CHECK, which are eight hexadecimal digits. CHECK is the CRC32C of the line up to the
// space before it. A line that does not fit its CHECK is none: a crash tore it, or it is damaged. A writer that opens a
// file again, or could not write all, begins with a newline. Empty lines mean nothing, and where two lines begin at the same
// byte the later one holds.
//
// No answer waits for these files: a line is written up to 0.1 s after its commit was durable, and synced within some 5 s,
// and when the segment is closed. So after a crash there may be
//   - bytes without a line, at the end: they are judged as whole lines, as they were before there were these files; the
//     next start cuts what is no whole line, and gives the rest its lines. Nothing before the end of the last line is cut.
//   - a line without its bytes, or with others: a disk that had said that they were durable has lost them, or somebody
//     changed the file. It is reported, and no record goes into that segment any more.
//   - bytes without a line between others: this file is damaged, or the disk was full for long.
//   - neither file: an earlier version made the segment, and does not look at them either.
//   - ids and no commits: that file is damaged, or was removed. Bytes before an END were durable too, and are not cut.
// A folder, a pipe or the like in place of one is named, and counts as no file.
// A segment may be longer than its records: behind the last one then come newlines alone, room that was written ahead.
// The spool's segments have the same files.

import type { Crc32c } from '../../lib/crc32c.ts'

/** Of a commit: 2 MiB, and what fills its last block. Who checks one needs so much memory. */
export const MAX_CHECKED_BYTES = 2 * 1024 * 1024 + 64 * 1024
/** Longer than any line of these files. */
export const MAX_LINE_BYTES = 256 * 1024
/** In one line. */
export const MAX_IDS = 16_384

const SPACE = 32
const NEWLINE = 10
const ID_BYTES = 8
/** Where the last four bytes of the batch id stand in a record, `{"v":1,"batch_id":"…`. */
const ID_TAIL_AT = 19 + 28
const ID_TAIL_DIGITS = 8
/** A space, and eight digits. */
const CHECK_BYTES = 9
/** As they are written, so that no line of one file is one of the other. */
const COUNT = /^(?:0|[1-9]\d{0,15})$/
const CRC = /^[0-9a-f]{8}$/

/** A run of bytes that was written to a segment at once. */
export interface Commit {
  readonly offset: number
  readonly length: number
  readonly crc: number
}

export interface IdsLine {
  readonly from: number
  readonly end: number
  /** For each record the tail of its id, and its offset. */
  readonly pairs: Uint32Array
}

export function commitsPath(segmentPath: string): string {
  return segmentPath.replace(/\.ndjson$/, '.commits')
}

export function idsPath(segmentPath: string): string {
  return segmentPath.replace(/\.ndjson$/, '.ids')
}

/** The last four bytes of the id of a batch. */
export function idTail(batchId: string): number {
  return Number.parseInt(batchId.slice(-ID_TAIL_DIGITS), 16)
}

/** Of the record at `at`; any number where there is none. */
export function idTailAt(bytes: Uint8Array, at: number): number {
  let tail = 0
  for (let digit = at + ID_TAIL_AT; digit < at + ID_TAIL_AT + ID_TAIL_DIGITS; digit++) {
    const code = bytes[digit]
    tail = (tail << 4) | (code > 57 ? code - 87 : code - 48)
  }
  return tail >>> 0
}

/** `crc` has memory for a line from `at` on. */
export function commitLine({ offset, length, crc }: Commit, checks: Crc32c, at: number): string {
  return checked(`${offset} ${length} ${hex(crc)}`, checks, at)
}

export function idsLine(from: number, end: number, pairs: readonly number[], checks: Crc32c, at: number): string {
  const { buffer } = Uint32Array.from(pairs)
  return checked(`${from} ${end} ${Buffer.from(buffer).toString('base64')}`, checks, at)
}

function checked(text: string, checks: Crc32c, at: number): string {
  const end = at + checks.bytes.write(text, at, 'latin1')
  return `${text} ${hex(checks.of(at, end))}\n`
}

function hex(crc: number): string {
  return crc.toString(16).padStart(8, '0')
}

/** The line [start, end) of `checks.bytes`, without its newline; null: it is none. */
export function readCommitLine(checks: Crc32c, start: number, end: number): Commit | null {
  const words = wordsOf(checks, start, end)
  if (words === null) return null
  const [offset, length] = words.map(countOf)
  const crc = crcOf(words[2])
  if (offset === null || length === null || crc === null) return null
  const isCommit = length > 0 && length <= MAX_CHECKED_BYTES && Number.isSafeInteger(offset + length)
  return isCommit ? { offset, length, crc } : null
}

export function readIdsLine(checks: Crc32c, start: number, end: number): IdsLine | null {
  const words = wordsOf(checks, start, end)
  if (words === null) return null
  const [from, to] = words.map(countOf)
  const ids = Buffer.from(words[2], 'base64')
  if (from === null || to === null || from > to || ids.length % ID_BYTES !== 0) return null
  // The memory of a small buffer is shared, and need not begin at a multiple of four.
  return { from, end: to, pairs: new Uint32Array(new Uint8Array(ids).buffer) }
}

/** Three, where the line fits its CHECK. */
function wordsOf(checks: Crc32c, start: number, end: number): string[] | null {
  const { bytes } = checks
  const checkAt = end - CHECK_BYTES
  if (checkAt <= start || bytes[checkAt] !== SPACE) return null
  if (crcOf(bytes.toString('latin1', checkAt + 1, end)) !== checks.of(start, checkAt)) return null
  const words = bytes.toString('latin1', start, checkAt).split(' ')
  return words.length === 3 ? words : null
}

function countOf(word: string): number | null {
  const count = COUNT.test(word) ? Number(word) : null
  return Number.isSafeInteger(count) ? count : null
}

function crcOf(word: string): number | null {
  return CRC.test(word) ? Number.parseInt(word, 16) : null
}

/** Passes the places of the whole lines of a piece; returns where the rest begins. */
export function linesIn(bytes: Buffer, end: number, onLine: (start: number, end: number) => void): number {
  let start = 0
  for (;;) {
    const newlineAt = bytes.indexOf(NEWLINE, start)
    if (newlineAt < 0 || newlineAt >= end) return start
    if (newlineAt > start) onLine(start, newlineAt)
    start = newlineAt + 1
  }
}
