// @ts-check
// What the validator needs of Node, in a browser.

/** @param {Uint8Array} bytes */
export function isUtf8(bytes) {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    return true
  } catch {
    return false
  }
}

/** A byte-order mark is a character like any other, as for Node. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

class Bytes extends Uint8Array {
  /** @override @param {string} [_encoding] @param {number} [start] @param {number} [end] */
  toString(_encoding, start, end) {
    return decoder.decode(this.subarray(start, end))
  }

  /** @param {Uint8Array} other */
  equals(other) {
    return this.length === other.length && this.every((byte, at) => byte === other[at])
  }
}

/** As far as the validator uses it. */
export const Buffer = {
  /** @param {string | ArrayBuffer} from @param {number} [offset] @param {number} [length] */
  from: (from, offset, length) =>
    typeof from === 'string' ? new Bytes(new TextEncoder().encode(from)) : new Bytes(from, offset, length),
}
