// Writes published messages as bytes into memory that is used again: new memory costs more than the copy into it.

import { encodedBytes, type NewMessage, writeMessage } from './nats-message.ts'

const BLOCK_BYTES = 1024 * 1024
/** As much as a window of acknowledgements lets out. What comes on top goes into memory of its own. */
const MAX_BLOCKS = 8

export class MessageWriter {
  #blocks: Buffer[] = []
  /** The block that is being filled, and where its free bytes begin. */
  #block = 0
  #at = 0

  /** Everything written so far was copied on: its memory is used again. */
  reuse(): void {
    this.#block = 0
    this.#at = 0
  }

  /** What was written so far may be read at any time: its memory is never used again. */
  forget(): void {
    this.#blocks = []
    this.reuse()
  }

  /** The messages, in order, in as few pieces as there are blocks. They stay valid until `reuse`. */
  write(messages: readonly NewMessage[]): Buffer[] {
    const pieces: Buffer[] = []
    let start = this.#at
    const endPiece = (): void => {
      if (this.#at > start) pieces.push(this.#blocks[this.#block].subarray(start, this.#at))
    }
    for (const message of messages) {
      const bytes = encodedBytes(message)
      if (!this.#hasRoomFor(bytes)) {
        endPiece()
        this.#nextBlock()
        start = this.#at
      }
      if (this.#hasRoomFor(bytes)) {
        this.#at = writeMessage(message, this.#blocks[this.#block], this.#at)
        continue
      }
      const own = Buffer.allocUnsafeSlow(bytes)
      writeMessage(message, own, 0)
      pieces.push(own)
    }
    endPiece()
    return pieces
  }

  #hasRoomFor(bytes: number): boolean {
    return this.#block < this.#blocks.length && this.#at + bytes <= BLOCK_BYTES
  }

  /** To the next block, which is made unless there are too many. */
  #nextBlock(): void {
    if (this.#block < this.#blocks.length && this.#at > 0) this.#block += 1
    this.#at = 0
    const isNew = this.#block === this.#blocks.length
    if (isNew && this.#blocks.length < MAX_BLOCKS) this.#blocks.push(Buffer.allocUnsafeSlow(BLOCK_BYTES))
  }
}
