// Writes large commits past the page cache (O_DIRECT): the kernel takes them from this memory, without a copy. It wants
// memory, place and length in whole blocks, so the last block of a write is filled: with spaces before the brace that
// ends the last record, where JSON allows them.

import { close, constants, fstatSync, openSync, write } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { errorCode, errorMessage } from '../../lib/errors.ts'
import type { OnNotice } from '../../lib/notice.ts'
import { WRITES_ARE_SYNCED } from './segments.ts'

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

function isSameFile(one: number, other: number): boolean {
  try {
    const [first, second] = [fstatSync(one), fstatSync(other)]
    return first.ino === second.ino && first.dev === second.dev
  } catch {
    return false
  }
}

/** Opens the file of `handle` a second time. null: another file has its name by now. Throws where the disk fails. */
export function openDirectFile(path: string, handle: FileHandle): DirectFile | null {
  const fd = openSync(path, constants.O_WRONLY | constants.O_APPEND | constants.O_DSYNC | constants.O_DIRECT)
  const end = (): void => close(fd, () => {})
  if (!isSameFile(fd, handle.fd)) {
    end()
    return null
  }
  return { append: (bytes, done) => write(fd, bytes, 0, bytes.length, null, done), close: end }
}

/** Whether a file system without direct writes says so. */
function isUnsupported(error: unknown): boolean {
  return ['EINVAL', 'ENOTSUP', 'EOPNOTSUPP'].includes(errorCode(error) ?? '')
}

export interface DirectWritesOptions {
  /** Bound on the bytes of one commit. */
  readonly maxBytes: number
  readonly open: (path: string, handle: FileHandle) => DirectFile | null
  readonly onNotice: OnNotice
}

/** The direct writes to the open segment, for as long as the file system takes them. */
export class DirectWrites {
  readonly #options: DirectWritesOptions
  /** The records of one commit. It begins at a page, as the memory of every resizable buffer does. */
  readonly #memory: Buffer
  #isSupported = WRITES_ARE_SYNCED
  /** null: it is not open yet, or cannot be. */
  #file: DirectFile | null = null

  constructor(options: DirectWritesOptions) {
    this.#options = options
    const length = options.maxBytes + paddingOf(options.maxBytes)
    this.#memory = Buffer.from(new ArrayBuffer(length, { maxByteLength: length }))
  }

  /** Whether a commit of so many bytes gains by a direct write. */
  gainBy(bytes: number): boolean {
    return this.#isSupported && bytes >= MIN_DIRECT_BYTES && bytes <= this.#memory.length
  }

  /** Whether a write to that segment can be direct. */
  open(path: string, handle: FileHandle): boolean {
    try {
      this.#file ??= this.#options.open(path, handle)
    } catch (error) {
      // Whatever else is wrong with the disk, an ordinary write will say it.
      if (isUnsupported(error)) this.#giveUp(error)
    }
    return this.#file !== null
  }

  /** To be called where `open` was true. 'unsupported': the file system has no direct writes after all. */
  append(lines: readonly Uint8Array[], done: (error: Error | 'unsupported' | null, bytes: number) => void): void {
    if (this.#file === null) throw new Error('the segment is not open for direct writes')
    this.#file.append(this.#join(lines), (error, bytes) => {
      if (error === null || !isUnsupported(error)) {
        done(error, bytes)
        return
      }
      this.#giveUp(error)
      done('unsupported', 0)
    })
  }

  /** The segment is written no more. */
  close(): void {
    this.#file?.close()
    this.#file = null
  }

  #join(lines: readonly Uint8Array[]): Buffer {
    let at = 0
    for (const piece of lines) {
      // `fill` is one plain copy; `set` copies from the ring's shared memory word by word.
      this.#memory.fill(piece, at, at + piece.length)
      at += piece.length
    }
    return this.#memory.subarray(0, at)
  }

  #giveUp(error: unknown): void {
    this.#isSupported = false
    this.close()
    const reason = errorMessage(error)
    this.#options.onNotice(
      `O_DIRECT is not supported here (${reason}): large writes go through the page cache, and cost more CPU`,
      'info',
    )
  }
}
