// How long the acceptor's own scans take, which differs tenfold by what bodies look like: those of one layout are compared
// with one before them, and others are taken apart.

/** Of bodies in one layout. It is the first guess, and no guess is better, so that a wrong one holds nobody up for long. */
const LEAST_MS_PER_BYTE = 0.25e-6
/** The part that a new scan has in the mean. */
const NEW_SHARE = 1 / 8
/** A scan that was interrupted counts as no more than so many times the mean. */
const MAX_RATIO = 4
/** With each run that goes elsewhere the mean is forgotten so far, until a scan here says what it is now. */
const FORGET = 0.99

export class ScanPace {
  #msPerByte = LEAST_MS_PER_BYTE

  /** What a scan of so many bytes will take. */
  msFor(bytes: number): number {
    return bytes * this.#msPerByte
  }

  /** A scan has taken that. */
  note(bytes: number, ms: number): void {
    if (bytes === 0) return
    const msPerByte = Math.min(ms / bytes, MAX_RATIO * this.#msPerByte)
    this.#set(this.#msPerByte + NEW_SHARE * (msPerByte - this.#msPerByte))
  }

  /** A run was scanned elsewhere. */
  skip(): void {
    this.#set(this.#msPerByte * FORGET)
  }

  #set(msPerByte: number): void {
    this.#msPerByte = Math.max(LEAST_MS_PER_BYTE, msPerByte)
  }
}
