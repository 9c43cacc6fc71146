// Writes large commits past the page cache (O_DIRECT): the kernel takes them from this memory, without a copy. It wants
// memory, place and length in whole blocks, so the last block of a write is filled: with spaces before the brace that
// ends the last record, where JSON allows them.

import { close, constants, fstatSync, openSync, write } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { errorCode } from '../../lib/errors.ts'

/** As large as the blocks of any usual disk, or a multiple of them. */
export const BLOCK_BYTES = 4096
/** Smaller commits cost less in the page cache. */
export const MIN_DIRECT_BYTES = 64 * 1024
const SPACE = 32
const BRACE_CLOSE = 125
const END_OF_RECORD = Buffer.from('}\n')
const FILLED_END = Buffer.concat([Buffer.alloc(BLOCK_BYTES, ' '), END_OF_RECORD])

/** A segment that is also open for direct writes. */
export interface DirectFile {
  /** Appends and syncs `bytes`, which `done` says are free again, with the number of durable bytes. */
  append(bytes: Uint8Array, done: (error: Error | null, bytes: number) => void): void
  close(): void
}

/** How many bytes fill the last block of a file of this length. */
export function paddingOf(lengthBytes: number): number {
  return (BLOCK_BYTES - (lengthBytes % BLOCK_BYTES)) % BLOCK_BYTES
}

/** The same lines in one more piece, the last of which has so many spaces before its last brace. */
export function filled(lines: readonly Uint8Array[], paddingBytes: number): readonly Uint8Array[] {
  if (paddingBytes === 0) return lines
  const last = lines[lines.length - 1]
  const end = FILLED_END.subarray(BLOCK_BYTES - paddingBytes)
  return [...lines.slice(0, -1), last.subarray(0, last.length - END_OF_RECORD.length), end]
}

/** A record's line, without its newline, as it was before its last block was filled. */
export function unfilled(line: Buffer): Buffer {
  let end = line.length - 1
  if (line[end] !== BRACE_CLOSE || line[end - 1] !== SPACE) return line
  while (line[end - 1] === SPACE) end -= 1
  return Buffer.concat([line.subarray(0, end), line.subarray(-1)])
}

/** Whether a file system without direct writes says so. */
export function isUnsupported(error: Error): boolean {
  return ['EINVAL', 'ENOTSUP', 'EOPNOTSUPP'].includes(errorCode(error) ?? '')
}

/** Opens the file of `handle` a second time. null: another file has its name by now. Throws where the disk fails. */
export function openDirectFile(path: string, handle: FileHandle): DirectFile | null {
  const fd = openSync(path, constants.O_WRONLY | constants.O_APPEND | constants.O_DSYNC | constants.O_DIRECT)
  const [opened, wanted] = [fstatSync(fd), fstatSync(handle.fd)]
  const end = (): void => close(fd, () => {})
  if (opened.ino !== wanted.ino || opened.dev !== wanted.dev) {
    end()
    return null
  }
  return { append: (bytes, done) => write(fd, bytes, 0, bytes.length, null, done), close: end }
}

/** Memory in which the records of one commit are joined. It begins at a page, as that of every resizable buffer does. */
export class CommitMemory {
  readonly #bytes: Buffer

  constructor(maxBytes: number) {
    const length = maxBytes + paddingOf(maxBytes)
    this.#bytes = Buffer.from(new ArrayBuffer(length, { maxByteLength: length }))
  }

  /** Whether a commit of so many bytes fits. */
  holds(bytes: number): boolean {
    return bytes <= this.#bytes.length
  }

  /** The lines, filled to the end of the last block. Valid until the next call. */
  join(lines: readonly Uint8Array[], paddingBytes: number): Buffer {
    let at = 0
    for (const piece of filled(lines, paddingBytes)) {
      // `fill` is one plain copy; `set` copies from the ring's shared memory word by word.
      this.#bytes.fill(piece, at, at + piece.length)
      at += piece.length
    }
    return this.#bytes.subarray(0, at)
  }
}
