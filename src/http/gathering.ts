// Bodies that arrive in pieces gather here, beside the ring, so that a slow client holds no place in it. The memory
// for all of them is bounded: where it runs out, the body that has been on its way the longest gives way.

/** A body on its way. */
export interface PartialBody {
  readonly pieces: Buffer[]
  lengthBytes: number
  /** Called when this body has to give way; it is forgotten already. */
  readonly evicted: () => void
}

export class Gathering {
  readonly #maxBytes: number
  /** In order of arrival: the first is the oldest. */
  readonly #bodies = new Set<PartialBody>()
  #usedBytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get usedBytes(): number {
    return this.#usedBytes
  }

  begin(evicted: () => void): PartialBody {
    const body = { pieces: [], lengthBytes: 0, evicted }
    this.#bodies.add(body)
    return body
  }

  /** Copies a piece. May evict this very body, if it is the oldest or alone too large. */
  add(body: PartialBody, piece: ArrayBuffer): void {
    body.pieces.push(Buffer.from(new Uint8Array(piece)))
    body.lengthBytes += piece.byteLength
    this.#usedBytes += piece.byteLength
    for (const oldest of this.#bodies) {
      if (this.#usedBytes <= this.#maxBytes) return
      if (oldest.lengthBytes === 0) continue
      this.forget(oldest)
      oldest.evicted()
    }
  }

  /** The body is whole and used, or nobody wants it any more. Harmless when repeated. */
  forget(body: PartialBody): void {
    if (this.#bodies.delete(body)) this.#usedBytes -= body.lengthBytes
  }
}
