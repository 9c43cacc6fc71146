// Decompression by Node's zlib under the rules for a body: one stream from the first byte to the last, of bounded
// length.

import type { Transform } from 'node:stream'
import * as zlib from 'node:zlib'
import type { ContentEncoding } from './head.ts'

/** Node's default of 16 KB holds an ordinary batch, but a large body would need 33 trips to a thread. */
const CHUNK_BYTES = 128 * 1024
/** How much is decoded before a look at what came of it. */
const STEP_BYTES = 512
/** The least that there is: what is decoded here goes elsewhere. */
const NO_CHUNK_BYTES = 64
const SLOW_AFTER_MS = 0.15
/** A decoder makes 100,000 on a slow machine. */
const MIN_OUTPUT_BYTES_PER_MS = 20_000
/**
 * Blocks that hold nothing take so long. What seems to take longer had to wait for a core, which says nothing about the body;
 * so what unfolds to four times its size is never behind.
 */
const MAX_MS_PER_BYTE = 0.2 / 1024
/** In a thread: each piece is as long as all before it, within these. The first looks are early, and later ones cost little. */
const PIECE_BYTES = { min: 4096, max: 32 * 1024 }
/** Real events unfold to several times what they were. What makes less than half of its input holds blocks of nothing. */
const MIN_OUTPUT_PER_INPUT = 0.5
/** How far a body in a thread may be behind MIN_OUTPUT_BYTES_PER_MS, by the sum of its pieces that were. */
const MAX_BEHIND_MS = 1

export type Format = 'gzip' | 'zlib' | 'raw' | 'br'

/** corrupt: not in this format, truncated, or followed by other bytes. */
export type Decoded = Buffer | 'too large' | 'corrupt'

/** odd: it unfolds to less than events do, or takes longer. It may be valid. */
export type Tried = Decoded | 'odd'

/** Measures from its call on. */
export type Stopwatch = () => () => number

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

type InThread = (body: Buffer, options: Options, done: (error: Error | null, result: Result) => void) => void

/** What a decoder of Node's has for its own functions that decode before they return. It can be fed in steps. */
interface Engine extends Transform {
  readonly bytesWritten: number
  readonly _handle: {
    onerror: (message: string, errno: number, code: string) => void
    writeSync(flush: number, input: Buffer, from: number, bytes: number, out: Buffer, at: number, room: number): void
    close(): void
  }
  /** After a step: the room that is left, and the bytes of the input that are. */
  readonly _writeState: Uint32Array
}

const ENGINES = {
  gzip: zlib.createGunzip,
  zlib: zlib.createInflate,
  raw: zlib.createInflateRaw,
  br: zlib.createBrotliDecompress,
} as unknown as Readonly<Record<Format, (options?: { chunkSize: number }) => Engine>>

const { Z_SYNC_FLUSH, Z_FINISH, BROTLI_OPERATION_PROCESS, BROTLI_OPERATION_FINISH } = zlib.constants

const IN_THREAD = {
  gzip: zlib.gunzip,
  zlib: zlib.inflate,
  raw: zlib.inflateRaw,
  br: zlib.brotliDecompress,
} as unknown as Readonly<Record<Format, InThread>>

/**
 * Decodes before it returns, into `out`, whose last byte is beyond the most that is allowed. It gives up on a body that is
 * unlike events, by what it made in the time that it has spent. Throws errors that the body did not cause, such as a lack of memory.
 */
export function decodeNow(format: Format, body: Buffer, out: Buffer, spentMs: () => number): Tried {
  const { _handle: handle, _writeState: state } = ENGINES[format]({ chunkSize: NO_CHUNK_BYTES })
  let error: object | null = null
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the handle is no event target
  handle.onerror = (message, errno, code) => (error = Object.assign(new Error(message), { errno, code }))
  const [onward, last] =
    format === 'br' ? [BROTLI_OPERATION_PROCESS, BROTLI_OPERATION_FINISH] : [Z_SYNC_FLUSH, Z_FINISH]
  let used = 0
  let made = 0
  let ms = 0
  let seenMs = 0
  try {
    for (;;) {
      const bytes = Math.min(STEP_BYTES, body.length - used)
      const isLast = used + bytes === body.length
      handle.writeSync(isLast ? last : onward, body, used, bytes, out, made, out.length - made)
      if (error !== null) return reasonOf(error)
      const [room, unused] = state
      made = out.length - room
      used += bytes - unused
      if (room === 0) return 'too large'
      // Its stream has ended before.
      if (unused > 0) return 'corrupt'
      if (isLast) return out.subarray(0, made)
      if (made < used * MIN_OUTPUT_PER_INPUT) return 'odd'
      const atMs = spentMs()
      ms += Math.min(atMs - seenMs, bytes * MAX_MS_PER_BYTE)
      seenMs = atMs
      if (ms > SLOW_AFTER_MS && made < ms * MIN_OUTPUT_BYTES_PER_MS) return 'odd'
    }
  } finally {
    handle.close()
  }
}

/**
 * The time, in ms, for which a decoder in a thread has surely worked. The time that passes is more than that: a thread may wait
 * for a core, and its end is noticed only when the event loop looks. So time counts while the event loop waits, since it would
 * have noticed, and no more of it than this process got of all cores, since other processes may hold them.
 */
export function threadStopwatch(): () => number {
  const { idle } = performance.eventLoopUtilization()
  const used = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(used)
    return Math.min(performance.eventLoopUtilization().idle - idle, (user + system) / 1000)
  }
}

/**
 * Decodes in libuv's threads, and gives up on a body that unfolds to next to nothing, or takes a thread for longer than events
 * do. Rejects as `decodeInThread` does.
 */
export function tryInThread(
  format: Format,
  body: Buffer,
  maxBytes: number,
  stopwatch: Stopwatch,
): Promise<Decoded | 'odd'> {
  return new Promise((resolve, reject) => {
    const engine = ENGINES[format]({ chunkSize: CHUNK_BYTES })
    const chunks: Buffer[] = []
    let made = 0
    let used = 0
    let behindMs = 0
    let isOver = false
    const finish = (result: () => Decoded | 'odd'): void => {
      if (isOver) return
      isOver = true
      try {
        resolve(result())
      } catch (error) {
        reject(error)
      }
      engine.destroy()
    }
    const next = (): void => {
      if (isOver) return
      const madeBefore = made
      const piece = body.subarray(used, used + Math.min(Math.max(used, PIECE_BYTES.min), PIECE_BYTES.max))
      used += piece.length
      if (used === body.length) {
        engine.end(piece)
        return
      }
      const spentMs = stopwatch()
      engine.write(piece, () => {
        const ms = spentMs()
        // What was made is known in the next turn.
        setImmediate(() => look(piece.length, madeBefore, ms))
      })
    }
    const look = (bytes: number, madeBefore: number, ms: number): void => {
      const madeBytes = made - madeBefore
      behindMs += Math.max(0, Math.min(ms, bytes * MAX_MS_PER_BYTE) - madeBytes / MIN_OUTPUT_BYTES_PER_MS)
      if (madeBytes < bytes * MIN_OUTPUT_PER_INPUT || behindMs > MAX_BEHIND_MS) finish(() => 'odd')
      else next()
    }
    engine.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      made += chunk.length
      if (made > maxBytes) finish(() => 'too large')
    })
    engine.on('error', (error) => finish(() => reasonOf(error)))
    engine.on('end', () =>
      finish(() => (engine.bytesWritten === body.length ? Buffer.concat(chunks, made) : 'corrupt')),
    )
    next()
  })
}

/** Decodes in libuv's threads. Rejects with errors that the body did not cause. */
export function decodeInThread(format: Format, body: Buffer, maxBytes: number): Promise<Decoded> {
  return new Promise<Result>((resolve, reject) => {
    const options = { maxOutputLength: maxBytes, chunkSize: CHUNK_BYTES, info: true } as const
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
