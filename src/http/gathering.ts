// Holds partial bodies outside the ring, so that slow clients take no room in it. They lie in the pages of one arena of
// fixed size. When it is full, slow bodies are evicted, those that hold most first; if that is not enough, the new piece's
// body is.

const PAGE_BYTES = 8192
/**
 * A body is slow if it arrives at less than this rate after the first 20 ms, takes longer than 500 ms, or has brought no new
 * page for 100 ms. Other bodies are not evicted: otherwise, in an overload, newcomers would evict all bodies before they
 * are complete.
 */
const MIN_BYTES_PER_MS = 100
const PATIENCE_MS = { min: 20, max: 500 }
const STALLED_AFTER_MS = 100
/**
 * Bodies beyond each size hold at most this share of the arena together, so that larger ones cannot keep smaller ones out,
 * not even if none of them is slow.
 */
const SHARES = [
  { beyondBytes: 16 * 1024, share: 15 / 16 },
  { beyondBytes: 32 * 1024, share: 7 / 8 },
  { beyondBytes: 64 * 1024, share: 1 / 2 },
]

export interface PartialBody {
  /** The numbers of its pages in the arena, in order. */
  readonly pages: number[]
  lengthBytes: number
  /** null: the client has declared no length. */
  readonly declaredBytes: number | null
  readonly startedAtMs: number
  /** Monotonic time at which it took its newest page. */
  pageAtMs: number
  /** Its pages, and those that are reserved for the rest of it. */
  heldPages: number
  /** How many sizes of the shares it is beyond. */
  sizes: number
  /** Called after the body was evicted. */
  readonly evicted: () => void
}

export interface GatheringOptions {
  readonly maxBytes: number
  readonly monotonicMs: () => number
  readonly shares?: typeof SHARES
}

export class Gathering {
  readonly #monotonicMs: () => number
  readonly #arena: Buffer
  readonly #freePages: number[]
  readonly #pages: number
  readonly #shares: typeof SHARES
  /** By all bodies, and by those beyond each size of the shares. */
  #heldPages = 0
  readonly #heldBeyond: number[]
  /** Bodies that hold pages, oldest first. */
  readonly #bodies = new Set<PartialBody>()

  constructor({ maxBytes, monotonicMs, shares = SHARES }: GatheringOptions) {
    this.#shares = shares
    this.#heldBeyond = shares.map(() => 0)
    this.#monotonicMs = monotonicMs
    const pages = Math.floor(maxBytes / PAGE_BYTES)
    this.#pages = pages
    // Allocated once: buffers for each slow client would grow faster than the garbage collector frees them.
    this.#arena = Buffer.allocUnsafeSlow(pages * PAGE_BYTES)
    this.#freePages = Array.from({ length: pages }, (_, page) => pages - 1 - page)
  }

  /** Counts whole pages. */
  get usedBytes(): number {
    return this.#arena.length - this.#freePages.length * PAGE_BYTES
  }

  begin(declaredBytes: number | null, evicted: () => void): PartialBody {
    const startedAtMs = this.#monotonicMs()
    return {
      pages: [],
      lengthBytes: 0,
      declaredBytes,
      startedAtMs,
      pageAtMs: startedAtMs,
      heldPages: 0,
      sizes: 0,
      evicted,
    }
  }

  /** Copies a piece. Where there is no room, evicts slow bodies, or else this one. */
  add(body: PartialBody, piece: Uint8Array): void {
    const lengthBytes = body.lengthBytes + piece.length
    // Pages are reserved once half of the body has arrived, so that clients who send little cannot block much memory.
    const declaredBytes = body.declaredBytes ?? 0
    const hasHalf = 2 * lengthBytes >= declaredBytes
    const pages = pagesFor(hasHalf ? Math.max(lengthBytes, declaredBytes) : lengthBytes)
    const bytes = Math.max(lengthBytes, declaredBytes)
    const sizes = this.#shares.filter(({ beyondBytes }) => bytes > beyondBytes).length
    this.#hold(body, body.pages.length, sizes)
    if (!this.#makeRoom(body, pages - body.heldPages)) {
      this.#evict(body)
      return
    }
    this.#hold(body, pages, sizes)
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
    this.#hold(body, 0, body.sizes)
    if (!this.#bodies.delete(body)) return
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
      if (usedOfPage === 0) {
        body.pages.push(this.#freePages.pop() as number)
        body.pageAtMs = this.#monotonicMs()
      }
      const bytes = Math.min(piece.length - copied, PAGE_BYTES - usedOfPage)
      const page = body.pages[body.pages.length - 1]
      this.#arena.set(piece.subarray(copied, copied + bytes), page * PAGE_BYTES + usedOfPage)
      body.lengthBytes += bytes
      copied += bytes
    }
  }

  #hold(body: PartialBody, pages: number, sizes: number): void {
    this.#heldPages += pages - body.heldPages
    for (let size = 0; size < this.#shares.length; size++) {
      this.#heldBeyond[size] += (size < sizes ? pages : 0) - (size < body.sizes ? body.heldPages : 0)
    }
    body.heldPages = pages
    body.sizes = sizes
  }

  /** Evicts slow bodies until the body may hold so many pages more. false: there are not enough of them. */
  #makeRoom(body: PartialBody, morePages: number): boolean {
    const hasRoom = () => this.#heldPages + morePages <= this.#pages
    /** The first size whose share has no room. */
    const full = () =>
      this.#shares.findIndex(
        ({ share }, size) => size < body.sizes && this.#heldBeyond[size] + morePages > share * this.#pages,
      )
    if (hasRoom() && full() < 0) return true
    const atMs = this.#monotonicMs()
    const others = [...this.#bodies].filter((other) => other !== body && isSlow(other, atMs))
    // Nothing is reserved for the rest of a body that has stalled.
    for (const other of others) if (isStalled(other, atMs)) this.#hold(other, other.pages.length, other.sizes)
    for (const other of others.toSorted((one, next) => next.heldPages - one.heldPages)) {
      if (hasRoom() && full() < 0) break
      if (!hasRoom() || other.sizes > full()) this.#evict(other)
    }
    return hasRoom() && full() < 0
  }

  #evict(body: PartialBody): void {
    this.forget(body)
    body.evicted()
  }
}

function isSlow(body: PartialBody, atMs: number): boolean {
  const patienceMs = PATIENCE_MS.min + body.lengthBytes / MIN_BYTES_PER_MS
  return atMs - body.startedAtMs > Math.min(PATIENCE_MS.max, patienceMs) || isStalled(body, atMs)
}

function isStalled({ pageAtMs }: PartialBody, atMs: number): boolean {
  return atMs - pageAtMs > STALLED_AFTER_MS
}

function pagesFor(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES)
}
