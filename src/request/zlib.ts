// Decompression by Node's zlib under the rules for a body: one stream from the first byte to the last, of bounded
// length.

import * as zlib from 'node:zlib'
import type { ContentEncoding } from './head.ts'

/** Output chunks. Node's default of 16 KB holds an ordinary batch, but a large body would need 33 trips to a thread. */
const NOW_CHUNK_BYTES = 16 * 1024
const THREAD_CHUNK_BYTES = 128 * 1024

export type Format = 'gzip' | 'zlib' | 'raw' | 'br'

/** corrupt: not in this format, truncated, or followed by other bytes. */
export type Decoded = Buffer | 'too large' | 'corrupt'

interface Options {
  readonly maxOutputLength: number
  readonly chunkSize: number
  readonly info: true
}

/** The result with the option `info`, which Node's types do not declare. */
interface Result {
  readonly buffer: Buffer
  /** `bytesWritten`: how many bytes of the body the decoder has used. */
  readonly engine: { readonly bytesWritten: number }
}

type Now = (body: Buffer, options: Options) => Result
type InThread = (body: Buffer, options: Options, done: (error: Error | null, result: Result) => void) => void

const NOW = {
  gzip: zlib.gunzipSync,
  zlib: zlib.inflateSync,
  raw: zlib.inflateRawSync,
  br: zlib.brotliDecompressSync,
} as unknown as Readonly<Record<Format, Now>>

const IN_THREAD = {
  gzip: zlib.gunzip,
  zlib: zlib.inflate,
  raw: zlib.inflateRaw,
  br: zlib.brotliDecompress,
} as unknown as Readonly<Record<Format, InThread>>

/** Decodes before it returns. Throws errors that the body did not cause, such as a lack of memory. */
export function decodeNow(format: Format, body: Buffer, maxBytes: number): Decoded {
  try {
    const result = NOW[format](body, { maxOutputLength: maxBytes, chunkSize: NOW_CHUNK_BYTES, info: true })
    return wholeOf(result, body)
  } catch (error) {
    return reasonOf(error)
  }
}

/** Decodes in libuv's threads. Rejects with errors that the body did not cause. */
export function decodeInThread(format: Format, body: Buffer, maxBytes: number): Promise<Decoded> {
  return new Promise<Result>((resolve, reject) => {
    const options = { maxOutputLength: maxBytes, chunkSize: THREAD_CHUNK_BYTES, info: true } as const
    IN_THREAD[format](body, options, (error, result) => (error === null ? resolve(result) : reject(error)))
  }).then((result) => wholeOf(result, body), reasonOf)
}

/** Refuses bytes after the end of the stream. Only gzip allows several streams in a row. */
function wholeOf({ buffer, engine }: Result, body: Buffer): Decoded {
  return engine.bytesWritten === body.length ? buffer : 'corrupt'
}

function reasonOf(error: unknown): 'too large' | 'corrupt' {
  const { code = '', errno } = error as NodeJS.ErrnoException
  if (code === 'ERR_BUFFER_TOO_LARGE') return 'too large'
  // Errors about the data have a number.
  if (typeof errno !== 'number' || code === 'Z_MEM_ERROR') throw error
  return 'corrupt'
}

export function formatOf(encoding: Exclude<ContentEncoding, 'identity'>, body: Buffer): Format {
  if (encoding !== 'deflate') return encoding
  // The name means the zlib format, but some clients send raw deflate. The two bytes of a zlib header are a multiple of
  // 31.
  const hasHeader = body.length >= 2 && (body[0] & 0x0f) === 8 && body.readUInt16BE(0) % 31 === 0
  return hasHeader ? 'zlib' : 'raw'
}
