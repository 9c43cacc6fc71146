// The bytes of the commit in hand: its records in one run, with a checksum, and where each of them lies.

import { MAX_BODY_BYTES } from '../../contract/bounds.ts'
import { fill } from '../../contract/record/record-lines.ts'
import { Crc32c } from '../../lib/crc32c.ts'
import { BLOCK_BYTES, paddingOf } from './direct-writes.ts'
import { idTailAt, MAX_LINE_BYTES } from './side-files.ts'

/** A body of the largest size as a record, whose head has less. */
const MAX_RECORD_BYTES = MAX_BODY_BYTES + 4096

/** What is joined beyond so many bytes is no longer in the processor's nearest cache once all is. */
const MIN_ADDED_BYTES = 128 * 1024

export class CommitMemory {
  readonly checks: Crc32c
  /** Where there is room for a line of the side files. */
  readonly lineAt: number
  /** For each record the tail of its id, and its offset in the commit. */
  readonly pairs: number[] = []
  /** What was joined last, and nothing else is. */
  joined: Buffer
  #crc = 0
  #isSummed = false

  /** `maxBytes`: of a commit, but for a single record. */
  constructor(maxBytes: number) {
    const bytes = Math.max(maxBytes, MAX_RECORD_BYTES)
    this.lineAt = bytes + paddingOf(bytes) + BLOCK_BYTES
    this.checks = new Crc32c(this.lineAt + MAX_LINE_BYTES)
    this.joined = this.checks.bytes.subarray(0, 0)
  }

  /** The lines, the last of which is so much longer by spaces before its brace. They begin at a page of memory. */
  join(lines: readonly Uint8Array[], paddingBytes: number): Buffer {
    const { bytes } = this.checks
    let end = 0
    this.pairs.length = 0
    const { checks } = this
    checks.begin(0)
    for (const line of lines) {
      // `fill` is one plain copy; `set` copies from the ring's shared memory word by word.
      bytes.fill(line, end, end + line.length)
      this.pairs.push(idTailAt(bytes, end), end)
      end += line.length
      // Of the last one while the disk works. Most commits are one line, or fit the cache.
      if (end >= MIN_ADDED_BYTES) checks.add(end - line.length)
    }
    end = fill(bytes, end, paddingBytes)
    this.#isSummed = false
    this.joined = bytes.subarray(0, end)
    return this.joined
  }

  /** Of what was joined. */
  crc(): number {
    if (!this.#isSummed) this.#crc = this.checks.finish(this.joined.length)
    this.#isSummed = true
    return this.#crc
  }
}
