// Gives the same string again for bytes that come again and again, such as an app's key or an SDK's version. To compare the
// bytes costs less than to make a string, and the string's hash is known, so that a map finds it at once.

/** Longer texts are made anew. */
const MAX_BYTES = 64
/** A power of two. */
const PLACES = 256

export class ShortTexts {
  /** By their last bytes. A text that takes another's place is made anew each time. */
  readonly #texts: string[] = Array.from({ length: PLACES }, () => '')

  /** One character for each byte of [start, end). */
  latin1(bytes: Buffer, start: number, end: number): string {
    const length = end - start
    if (length > MAX_BYTES || length === 0) return bytes.toString('latin1', start, end)
    const place = (bytes[end - 1] + 31 * bytes[end - 2] + 7 * length) & (PLACES - 1)
    const known = this.#texts[place]
    if (isSame(known, bytes, start, length)) return known
    const text = bytes.toString('latin1', start, end)
    this.#texts[place] = text
    return text
  }
}

function isSame(text: string, bytes: Buffer, start: number, length: number): boolean {
  if (text.length !== length) return false
  // From the end: what keys and versions have in common stands in front.
  for (let at = length - 1; at >= 0; at--) if (text.charCodeAt(at) !== bytes[start + at]) return false
  return true
}
