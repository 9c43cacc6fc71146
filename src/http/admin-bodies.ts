// The bodies of requests to the admin port, with one bound for each and one for all.

import type { IncomingMessage } from 'node:http'
import { type Answer, problem } from './admin-routes.ts'

/** Of all requests under way. Larger bodies come only for `explain`, one at a time and by hand. */
const MAX_BODIES_BYTES = 4_194_304
/** Of one request, that nobody reads. */
const MAX_DISCARDED_BYTES = 1_048_576

export class AdminBodies {
  #usedBytes = 0

  get usedBytes(): number {
    return this.#usedBytes
  }

  /** The whole body, or what refuses it. */
  async read(request: IncomingMessage, maxBytes: number): Promise<Buffer | Answer> {
    // One in chunks does not tell its length.
    const isChunked = request.headers['transfer-encoding'] !== undefined
    const mostBytes = isChunked ? maxBytes : Number(request.headers['content-length'] ?? 0)
    if (mostBytes > maxBytes) return tooLarge(maxBytes)
    if (this.#usedBytes + mostBytes > MAX_BODIES_BYTES)
      return problem(503, 'busy', 'too many bodies at once: try again')
    this.#usedBytes += mostBytes
    try {
      return (await collect(request, mostBytes)) ?? tooLarge(maxBytes)
    } catch (error) {
      // The client left, or took too long: nobody reads the answer.
      if (request.errored === null) throw error
      return problem(400, 'bad_request', 'the body did not come whole')
    } finally {
      this.#usedBytes -= mostBytes
    }
  }
}

/** null: there is more, which is left for `discardRest`. */
async function collect(request: IncomingMessage, mostBytes: number): Promise<Buffer | null> {
  // One buffer, since each small piece would keep the memory that it was read into.
  const body = Buffer.allocUnsafe(mostBytes)
  let bytes = 0
  const pieces: AsyncIterable<Buffer> = request.iterator({ destroyOnReturn: false })
  for await (const piece of pieces) {
    if (bytes + piece.length > mostBytes) return null
    piece.copy(body, bytes)
    bytes += piece.length
  }
  return body.subarray(0, bytes)
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
  return problem(413, 'payload_too_large', `the body must not exceed ${maxBytes} bytes`)
}
