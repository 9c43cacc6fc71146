// Bodies that arrive in pieces gather here, beside the ring, so that a slow client holds no place in it. They lie in
// the pages of one arena of fixed size. Where these run out, slow bodies give way, and after them whoever comes last.

const PAGE_BYTES = 8192
/**
 * A body that has come at less than so many bytes in a millisecond is a slow one, after a moment to begin in; and so is
 * one that has been on its way for longer than the most. The others go on: were they to give way to each newcomer, none
 * would arrive whole while more come than there is room for.
 */
const LEAST_BYTES_PER_MS = 100
const PATIENCE_MS = { least: 20, most: 500 }

/** A body on its way. */
export interface PartialBody {
  /** Numbers of the arena's pages that hold it, in order. */
  readonly pages: number[]
  lengthBytes: number
  /** null: the client has not said how much it sends. */
  readonly declaredBytes: number | null
  readonly startedAtMs: number
  /** Free pages that are kept for the rest of it. */
  promisedPages: number
  /** Called when this body has to give way; it is forgotten already. */
  readonly evicted: () => void
}

export interface GatheringOptions {
  readonly maxBytes: number
  /** A time in ms that never goes back. */
  readonly nowMs: () => number
}

export class Gathering {
  readonly #nowMs: () => number
  readonly #arena: Buffer
  readonly #freePages: number[]
  #promisedPages = 0
  /** Those that hold pages, in order of arrival: the first is the oldest. */
  readonly #bodies = new Set<PartialBody>()

  constructor({ maxBytes, nowMs }: GatheringOptions) {
    this.#nowMs = nowMs
    const pages = Math.floor(maxBytes / PAGE_BYTES)
    // One allocation for good: buffers that come and go with slow clients would outrun the garbage collector.
    this.#arena = Buffer.allocUnsafeSlow(pages * PAGE_BYTES)
    this.#freePages = Array.from({ length: pages }, (_, page) => pages - 1 - page)
  }

  /** Whole pages that are taken. */
  get usedBytes(): number {
    return this.#arena.length - this.#freePages.length * PAGE_BYTES
  }

  begin(declaredBytes: number | null, evicted: () => void): PartialBody {
    return { pages: [], lengthBytes: 0, declaredBytes, startedAtMs: this.#nowMs(), promisedPages: 0, evicted }
  }

  /** Copies a piece. Where there is no room for it, slow bodies are evicted, and at last this very one. */
  add(body: PartialBody, piece: Uint8Array): void {
    const lengthBytes = body.lengthBytes + piece.length
    const pages = pagesFor(lengthBytes)
    // Once half of it is there: who sends little cannot keep much from others.
    const declaredBytes = body.declaredBytes ?? 0
    const isHalfThere = 2 * lengthBytes >= declaredBytes
    const promised = isHalfThere ? Math.max(0, pagesFor(declaredBytes) - pages) : 0
    this.#promise(body, 0)
    if (!this.#makeRoom(body, pages - body.pages.length + promised)) {
      this.#evict(body)
      return
    }
    this.#promise(body, promised)
    this.#bodies.add(body)
    this.#copy(body, piece)
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
    this.#promise(body, 0)
    this.#freePages.push(...body.pages)
    body.pages.length = 0
  }

  /** Ends every body on its way. */
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

  #promise(body: PartialBody, pages: number): void {
    this.#promisedPages += pages - body.promisedPages
    body.promisedPages = pages
  }

  /** Whether so many pages are free, for which slow bodies give way. */
  #makeRoom(body: PartialBody, pages: number): boolean {
    const hasRoom = () => this.#freePages.length - this.#promisedPages >= pages
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
  const patienceMs = PATIENCE_MS.least + lengthBytes / LEAST_BYTES_PER_MS
  return nowMs - startedAtMs > Math.min(PATIENCE_MS.most, patienceMs)
}

function pagesFor(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES)
}
