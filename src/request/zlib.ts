// Node's zlib, held to what a request's body may be: one stream from its first byte to its last, of bounded length.

import * as zlib from 'node:zlib'
import type { ContentEncoding } from './head.ts'

/** What is made at a time. Node's own 16 KB hold an ordinary batch; a large body would go to a thread 33 times. */
const NOW_CHUNK_BYTES = 16 * 1024
const THREAD_CHUNK_BYTES = 128 * 1024

export type Format = 'gzip' | 'zlib' | 'raw' | 'br'

/** Corrupt: not in that format, cut short, or with something behind its end. */
export type Decoded = Buffer | 'too large' | 'corrupt'

interface Options {
  readonly maxOutputLength: number
  readonly chunkSize: number
  readonly info: true
}

/** What zlib gives where it is asked for `info`; the types leave it out. */
interface Result {
  readonly buffer: Buffer
  /** `bytesWritten`: how much of the body the decoder has taken. */
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

/** Decodes before it returns. Throws what the body cannot explain, such as a lack of memory. */
export function decodeNow(format: Format, body: Buffer, mostBytes: number): Decoded {
  try {
    const result = NOW[format](body, { maxOutputLength: mostBytes, chunkSize: NOW_CHUNK_BYTES, info: true })
    return wholeOf(result, body)
  } catch (error) {
    return reasonOf(error)
  }
}

/** Decodes in libuv's threads. Rejects with what the body cannot explain. */
export function decodeInThread(format: Format, body: Buffer, mostBytes: number): Promise<Decoded> {
  return new Promise<Result>((resolve, reject) => {
    const options = { maxOutputLength: mostBytes, chunkSize: THREAD_CHUNK_BYTES, info: true } as const
    IN_THREAD[format](body, options, (error, result) => (error === null ? resolve(result) : reject(error)))
  }).then((result) => wholeOf(result, body), reasonOf)
}

/** A stream may end before its body does, and the rest is nobody's; gzip alone may hold several streams in a row. */
function wholeOf({ buffer, engine }: Result, body: Buffer): Decoded {
  return engine.bytesWritten === body.length ? buffer : 'corrupt'
}

function reasonOf(error: unknown): 'too large' | 'corrupt' {
  const { code = '', errno } = error as NodeJS.ErrnoException
  if (code === 'ERR_BUFFER_TOO_LARGE') return 'too large'
  // The decoders' own findings have a number.
  if (typeof errno !== 'number' || code === 'Z_MEM_ERROR') throw error
  return 'corrupt'
}

export function formatOf(encoding: Exclude<ContentEncoding, 'identity'>, body: Buffer): Format {
  if (encoding !== 'deflate') return encoding
  // The name means the zlib format; some clients send the raw one. A zlib header's two bytes are a multiple of 31.
  const hasHeader = body.length >= 2 && (body[0] & 0x0f) === 8 && body.readUInt16BE(0) % 31 === 0
  return hasHeader ? 'zlib' : 'raw'
}
