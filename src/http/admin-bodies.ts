// The bodies of requests to the admin port or the portal: each has a bound, a key has a share, and all have one. What
// counts is what has arrived, since a client may announce half a megabyte and send one byte.

import type { IncomingMessage } from 'node:http'
import { type Answer, problem } from './admin-routes.ts'

/** Of all large requests under way. They come only for `explain` and records of apps, by hand. */
const MAX_BODIES_BYTES = 4_194_304
/** Smaller ones, as of who signs in, need no room: a connection has one at a time, and connections are bounded. */
const MAX_SMALL_BYTES = 4096
const MAX_LARGE_OF_KEY = 2
/** A body that has brought less than this since its last step has stalled since then. */
const STEP_BYTES = 4096
/** Of one request, that nobody reads. */
const MAX_DISCARDED_BYTES = 1_048_576

/** One under way that may be large. */
interface Large {
  readonly key: string | null
  memory: Buffer
  bytes: number
  steps: number
  /** For one that came on later. */
  evict: () => void
}

const BUSY = problem('busy', 'too many bodies at once: try again')

export class AdminBodies {
  /** The one that has stalled longest first. */
  readonly #large = new Set<Large>()

  /** Memory of the large ones, which is at most twice what has arrived. */
  get usedBytes(): number {
    return [...this.#large].reduce((sum, { memory }) => sum + memory.length, 0)
  }

  /** The whole body, or what refuses it. `key`: who shares one share; null: who asks has no share. */
  async read(request: IncomingMessage, maxBytes: number, key: string | null = null): Promise<Buffer | Answer> {
    // One in chunks does not tell its length.
    const isChunked = request.headers['transfer-encoding'] !== undefined
    const mostBytes = isChunked ? maxBytes : Number(request.headers['content-length'] ?? 0)
    if (mostBytes > maxBytes) return tooLarge(maxBytes)
    const isLarge = mostBytes > MAX_SMALL_BYTES
    if (isLarge && key !== null && this.#largeOf(key) >= MAX_LARGE_OF_KEY) return BUSY
    const body: Large = { key, memory: Buffer.alloc(0), bytes: 0, steps: 0, evict: () => {} }
    const evicted = new Promise<'evicted'>((resolve) => {
      body.evict = () => {
        this.#large.delete(body)
        resolve('evicted')
      }
    })
    if (isLarge) this.#large.add(body)
    try {
      const collected = await Promise.race([evicted, this.#collect(request, body, mostBytes)])
      if (collected === 'evicted') return BUSY
      return collected === 'more' ? tooLarge(maxBytes) : collected
    } catch (error) {
      // The client left, or took too long: nobody reads the answer.
      if (request.errored === null) throw error
      return problem('bad_request', 'the body did not come whole')
    } finally {
      this.#large.delete(body)
    }
  }

  #largeOf(key: string): number {
    return [...this.#large].filter((body) => body.key === key).length
  }

  /** more: there is, and it is left for `discardRest`, as is the rest of one that was evicted. */
  async #collect(request: IncomingMessage, body: Large, mostBytes: number): Promise<Buffer | 'more' | 'evicted'> {
    const isLarge = this.#large.has(body)
    const pieces: AsyncIterable<Buffer> = request.iterator({ destroyOnReturn: false })
    for await (const piece of pieces) {
      if (isLarge && !this.#large.has(body)) return 'evicted'
      const bytes = body.bytes + piece.length
      if (bytes > mostBytes) return 'more'
      if (bytes > body.memory.length) {
        // In one buffer, since each small piece would keep the memory that it was read into.
        const grown = Buffer.allocUnsafe(Math.min(mostBytes, Math.max(bytes, 2 * body.memory.length)))
        body.memory.copy(grown, 0, 0, body.bytes)
        body.memory = grown
      }
      piece.copy(body.memory, body.bytes)
      body.bytes = bytes
      if (isLarge) this.#goesOn(body)
    }
    return body.memory.subarray(0, body.bytes)
  }

  #goesOn(body: Large): void {
    const steps = Math.floor(body.bytes / STEP_BYTES)
    if (steps > body.steps) {
      body.steps = steps
      this.#large.delete(body)
      this.#large.add(body)
    }
    for (const stalled of this.#large) {
      if (this.usedBytes <= MAX_BODIES_BYTES) break
      stalled.evict()
    }
  }
}

/**
 * To be called behind the answer. Many clients read none before they have sent everything; one that sends without end is
 * closed, since what it sends holds up all requests.
 */
export function discardRest(request: IncomingMessage): void {
  if (request.complete) return
  let bytes = 0
  request.on('data', (piece: Buffer) => {
    bytes += piece.length
    if (bytes > MAX_DISCARDED_BYTES) request.socket.destroy()
  })
  request.resume()
}

function tooLarge(maxBytes: number): Answer {
  return problem('payload_too_large', `the body must not exceed ${maxBytes} bytes`)
}
