// Undoes a Content-Encoding off the main thread. The decoder stops at the cap: a bomb never unfolds.

import { brotliDecompress, gunzip, inflate, inflateRaw } from 'node:zlib'
import type { ContentEncoding } from './head.ts'

/** What a waiting body counts for at the least: a bomb of 600 bytes takes as long to undo as a large body. */
const MIN_WAITING_BYTES = 64 * 1024

/** Decoders that run at the same time: half of libuv's default threads, so that the journal's writes find one free. */
const MAX_CONCURRENT = 2

type Decoder = (
  body: Buffer,
  options: { maxOutputLength: number },
  done: (error: NodeJS.ErrnoException | null, decoded: Buffer) => void,
) => void

export type NotInflated = 'too large' | 'corrupt' | 'busy'

export class Inflater {
  readonly #capBytes: number
  readonly #maxWaitingBytes: number
  readonly #waiting: (() => void)[] = []
  #waitingBytes = 0
  #running = 0

  constructor(options: { capBytes: number; maxWaitingBytes: number }) {
    this.#capBytes = options.capBytes
    this.#maxWaitingBytes = options.maxWaitingBytes
  }

  /** The decoded body, or why there is none. Busy: too much waits for its turn already. */
  async inflate(encoding: Exclude<ContentEncoding, 'identity'>, body: Buffer): Promise<Buffer | NotInflated> {
    const weightBytes = Math.max(body.length, MIN_WAITING_BYTES)
    if (this.#running < MAX_CONCURRENT) this.#running++
    else if (this.#waitingBytes + weightBytes > this.#maxWaitingBytes) return 'busy'
    else await this.#turn(weightBytes)
    try {
      return await run(decoderOf(encoding, body), body, this.#capBytes)
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#running--
      else next()
    }
  }

  /** Resolves when a decoder is handed on to this body. */
  async #turn(lengthBytes: number): Promise<void> {
    this.#waitingBytes += lengthBytes
    await new Promise<void>((resolve) => this.#waiting.push(resolve))
    this.#waitingBytes -= lengthBytes
  }
}

function run(decoder: Decoder, body: Buffer, capBytes: number): Promise<Buffer | NotInflated> {
  return new Promise((resolve) => {
    decoder(body, { maxOutputLength: capBytes }, (error, decoded) => {
      if (error === null) resolve(decoded)
      else resolve(error.code === 'ERR_BUFFER_TOO_LARGE' ? 'too large' : 'corrupt')
    })
  })
}

function decoderOf(encoding: Exclude<ContentEncoding, 'identity'>, body: Buffer): Decoder {
  switch (encoding) {
    case 'gzip':
      return gunzip
    case 'br':
      return brotliDecompress
    case 'deflate':
      // The name means the zlib format; some clients send the raw one. A zlib header's two bytes are a multiple of 31.
      return body.length >= 2 && (body[0] & 0x0f) === 8 && body.readUInt16BE(0) % 31 === 0 ? inflate : inflateRaw
  }
}
