// Writes large commits past the page cache (O_DIRECT): the kernel takes them from their memory, without a copy. It wants
// memory, place and length in whole blocks, so the last block of a write is filled (commit-memory.ts).

import { errorCode, errorMessage } from '../../lib/errors.ts'
import type { OnNotice } from '../../lib/notice.ts'
import { type DirectFile, type DiskFile, WRITES_ARE_SYNCED } from './disk.ts'

/** As large as the blocks of any usual disk, or a multiple of them. */
export const BLOCK_BYTES = 4096
/** Smaller commits cost less in the page cache. */
export const MIN_DIRECT_BYTES = 64 * 1024

/** How many bytes fill the last block of a file of this length. */
export function paddingOf(lengthBytes: number): number {
  return (BLOCK_BYTES - (lengthBytes % BLOCK_BYTES)) % BLOCK_BYTES
}

/** Whether a file system without direct writes says so. */
function isUnsupported(error: unknown): boolean {
  return ['EINVAL', 'ENOTSUP', 'EOPNOTSUPP'].includes(errorCode(error) ?? '')
}

export interface DirectWritesOptions {
  readonly open: (path: string, file: DiskFile) => DirectFile | null
  readonly onNotice: OnNotice
}

/** The direct writes to the open segment, for as long as the file system takes them. */
export class DirectWrites {
  readonly #options: DirectWritesOptions
  #isSupported = WRITES_ARE_SYNCED
  /** null: it is not open yet, or cannot be. */
  #file: DirectFile | null = null

  constructor(options: DirectWritesOptions) {
    this.#options = options
  }

  /** Whether a commit of so many bytes gains by a direct write. */
  gainBy(bytes: number): boolean {
    return this.#isSupported && bytes >= MIN_DIRECT_BYTES
  }

  /** Whether a write to that segment can be direct. */
  open(path: string, file: DiskFile): boolean {
    try {
      this.#file ??= this.#options.open(path, file)
    } catch (error) {
      // Whatever else is wrong with the disk, an ordinary write will say it.
      if (isUnsupported(error)) this.#giveUp(error)
    }
    return this.#file !== null
  }

  /** To be called where `open` was true, with whole pages. 'unsupported': the file system has no direct writes after all. */
  append(commit: Uint8Array, done: (error: Error | 'unsupported' | null, bytes: number) => void): void {
    if (this.#file === null) throw new Error('the segment is not open for direct writes')
    this.#file.append(commit, (error, bytes) => {
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
