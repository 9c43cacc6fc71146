// Bodies that arrive in pieces gather here, beside the ring, so that a slow client holds no place in it. They lie in
// the pages of one arena of fixed size: where these run out, the body that has been on its way the longest gives way.

const PAGE_BYTES = 8192

/** A body on its way. */
export interface PartialBody {
  /** Numbers of the arena's pages that hold it, in order. */
  readonly pages: number[]
  lengthBytes: number
  /** Called when this body has to give way; it is forgotten already. */
  readonly evicted: () => void
}

export class Gathering {
  readonly #arena: Buffer
  readonly #freePages: number[]
  /** In order of arrival: the first is the oldest. */
  readonly #bodies = new Set<PartialBody>()

  constructor(maxBytes: number) {
    const pages = Math.floor(maxBytes / PAGE_BYTES)
    // One allocation for good: buffers that come and go with slow clients would outrun the garbage collector.
    this.#arena = Buffer.allocUnsafeSlow(pages * PAGE_BYTES)
    this.#freePages = Array.from({ length: pages }, (_, page) => pages - 1 - page)
  }

  /** Whole pages that are taken. */
  get usedBytes(): number {
    return this.#arena.length - this.#freePages.length * PAGE_BYTES
  }

  begin(evicted: () => void): PartialBody {
    const body = { pages: [], lengthBytes: 0, evicted }
    this.#bodies.add(body)
    return body
  }

  /** Copies a piece. Evicts as many of the oldest bodies as that takes, at last this very one. */
  add(body: PartialBody, piece: Uint8Array): void {
    let copied = 0
    while (copied < piece.length) {
      const usedOfPage = body.lengthBytes % PAGE_BYTES
      if (usedOfPage === 0) {
        const page = this.#takePage()
        // To make room, this body may have been the one to go.
        if (!this.#bodies.has(body)) {
          this.#freePages.push(page)
          return
        }
        body.pages.push(page)
      }
      const bytes = Math.min(piece.length - copied, PAGE_BYTES - usedOfPage)
      const page = body.pages[body.pages.length - 1]
      this.#arena.set(piece.subarray(copied, copied + bytes), page * PAGE_BYTES + usedOfPage)
      body.lengthBytes += bytes
      copied += bytes
    }
  }

  /** What has arrived, in order; valid until the body is forgotten. */
  pieces(body: PartialBody): Uint8Array[] {
    return body.pages.map((page, index) => {
      const start = page * PAGE_BYTES
      return this.#arena.subarray(start, start + Math.min(PAGE_BYTES, body.lengthBytes - index * PAGE_BYTES))
    })
  }

  /** The body was used, or nobody wants it any more. Harmless when repeated. */
  forget(body: PartialBody): void {
    if (!this.#bodies.delete(body)) return
    this.#freePages.push(...body.pages)
    body.pages.length = 0
  }

  /** Ends every body on its way. */
  evictAll(): void {
    for (const body of this.#bodies) {
      this.forget(body)
      body.evicted()
    }
  }

  #takePage(): number {
    for (const oldest of this.#bodies) {
      if (this.#freePages.length > 0) break
      // One that has sent nothing yet would free nothing.
      if (oldest.pages.length === 0) continue
      this.forget(oldest)
      oldest.evicted()
    }
    const page = this.#freePages.pop()
    if (page === undefined) throw new Error('the arena for bodies on their way has no page at all')
    return page
  }
}
