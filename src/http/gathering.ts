// Holds partial bodies outside the ring, so that slow clients take no room in it. They lie in the pages of one arena of
// fixed size. When it is full, slow bodies are evicted; if that is not enough, the new piece's body is.

const PAGE_BYTES = 8192
/**
 * A body is slow if it arrives at less than this rate after the first 20 ms, or takes longer than 500 ms. Other bodies
 * are not evicted: otherwise, in an overload, newcomers would evict all bodies before they are complete.
 */
const MIN_BYTES_PER_MS = 100
const PATIENCE_MS = { min: 20, max: 500 }

export interface PartialBody {
  /** The numbers of its pages in the arena, in order. */
  readonly pages: number[]
  lengthBytes: number
  /** null: the client has declared no length. */
  readonly declaredBytes: number | null
  readonly startedAtMs: number
  /** Free pages that are reserved for the rest of it. */
  reservedPages: number
  /** Called after the body was evicted. */
  readonly evicted: () => void
}

export interface GatheringOptions {
  readonly maxBytes: number
  /** A monotonic time. */
  readonly nowMs: () => number
}

export class Gathering {
  readonly #nowMs: () => number
  readonly #arena: Buffer
  readonly #freePages: number[]
  #reservedPages = 0
  /** Bodies that hold pages, oldest first. */
  readonly #bodies = new Set<PartialBody>()

  constructor({ maxBytes, nowMs }: GatheringOptions) {
    this.#nowMs = nowMs
    const pages = Math.floor(maxBytes / PAGE_BYTES)
    // Allocated once: buffers for each slow client would grow faster than the garbage collector frees them.
    this.#arena = Buffer.allocUnsafeSlow(pages * PAGE_BYTES)
    this.#freePages = Array.from({ length: pages }, (_, page) => pages - 1 - page)
  }

  /** Counts whole pages. */
  get usedBytes(): number {
    return this.#arena.length - this.#freePages.length * PAGE_BYTES
  }

  begin(declaredBytes: number | null, evicted: () => void): PartialBody {
    return { pages: [], lengthBytes: 0, declaredBytes, startedAtMs: this.#nowMs(), reservedPages: 0, evicted }
  }

  /** Copies a piece. Where there is no room, evicts slow bodies, or else this one. */
  add(body: PartialBody, piece: Uint8Array): void {
    const lengthBytes = body.lengthBytes + piece.length
    const pages = pagesFor(lengthBytes)
    // Pages are reserved once half of the body has arrived, so that clients who send little cannot block much memory.
    const declaredBytes = body.declaredBytes ?? 0
    const hasHalf = 2 * lengthBytes >= declaredBytes
    const reserved = hasHalf ? Math.max(0, pagesFor(declaredBytes) - pages) : 0
    this.#reserve(body, 0)
    if (!this.#makeRoom(body, pages - body.pages.length + reserved)) {
      this.#evict(body)
      return
    }
    this.#reserve(body, reserved)
    this.#bodies.add(body)
    this.#copy(body, piece)
  }

  /** The bytes so far, in order. Valid until `forget`. */
  pieces(body: PartialBody): Uint8Array[] {
    return body.pages.map((page, index) => {
      const start = page * PAGE_BYTES
      return this.#arena.subarray(start, start + Math.min(PAGE_BYTES, body.lengthBytes - index * PAGE_BYTES))
    })
  }

  /** Frees the pages of a body. May be called more than once. */
  forget(body: PartialBody): void {
    if (!this.#bodies.delete(body)) return
    this.#reserve(body, 0)
    this.#freePages.push(...body.pages)
    body.pages.length = 0
  }

  evictAll(): void {
    for (const body of this.#bodies) this.#evict(body)
  }

  #copy(body: PartialBody, piece: Uint8Array): void {
    let copied = 0
    while (copied < piece.length) {
      const usedOfPage = body.lengthBytes % PAGE_BYTES
      if (usedOfPage === 0) body.pages.push(this.#freePages.pop() as number)
      const bytes = Math.min(piece.length - copied, PAGE_BYTES - usedOfPage)
      const page = body.pages[body.pages.length - 1]
      this.#arena.set(piece.subarray(copied, copied + bytes), page * PAGE_BYTES + usedOfPage)
      body.lengthBytes += bytes
      copied += bytes
    }
  }

  #reserve(body: PartialBody, pages: number): void {
    this.#reservedPages += pages - body.reservedPages
    body.reservedPages = pages
  }

  /** Evicts slow bodies until `pages` are free. false: there are not enough of them. */
  #makeRoom(body: PartialBody, pages: number): boolean {
    const hasRoom = () => this.#freePages.length - this.#reservedPages >= pages
    if (hasRoom()) return true
    const nowMs = this.#nowMs()
    for (const other of this.#bodies) {
      if (other === body || !isSlow(other, nowMs)) continue
      this.#evict(other)
      if (hasRoom()) return true
    }
    return false
  }

  #evict(body: PartialBody): void {
    this.forget(body)
    body.evicted()
  }
}

function isSlow({ startedAtMs, lengthBytes }: PartialBody, nowMs: number): boolean {
  const patienceMs = PATIENCE_MS.min + lengthBytes / MIN_BYTES_PER_MS
  return nowMs - startedAtMs > Math.min(PATIENCE_MS.max, patienceMs)
}

function pagesFor(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES)
}
