// Compressed bodies that unfold to next to nothing: block after block, each with tables to be built and no content.
// 16 KB of them take a decoder some milliseconds.

import { crc32 } from 'node:zlib'

/** Bits in the order of both formats: numbers from their lowest bit, prefix codes from their highest. */
class Bits {
  /** @type {number[]} */
  #bytes = []
  #count = 0

  get bytes() {
    return this.#bytes.length
  }

  /** @param {number} value @param {number} bits */
  put(value, bits) {
    for (let bit = 0; bit < bits; bit++) this.#bit((value >> bit) & 1)
  }

  /** @param {number} code @param {number} bits */
  code(code, bits) {
    for (let bit = bits - 1; bit >= 0; bit--) this.#bit((code >> bit) & 1)
  }

  /** @param {number} bit */
  #bit(bit) {
    if (this.#count % 8 === 0) this.#bytes.push(0)
    this.#bytes[this.#bytes.length - 1] |= bit << (this.#count % 8)
    this.#count += 1
  }

  toBuffer() {
    return Buffer.from(this.#bytes)
  }
}

/** A block of deflate with 286 and 30 symbols, and nothing in it. @param {Bits} bits */
function emptyDynamicBlock(bits) {
  bits.put(0b100, 3)
  bits.put(29, 5)
  bits.put(29, 5)
  bits.put(15, 4)
  // Lengths of the codes for lengths, in the order of the format: 16 has one bit, and 8, 9, 5 and 4 have three.
  for (const length of [1, 0, 0, 0, 3, 0, 3, 0, 0, 3, 0, 3, 0, 0, 0, 0, 0, 0, 0]) bits.put(length, 3)
  const codes = { 4: 0b100, 5: 0b101, 8: 0b110, 9: 0b111 }
  for (const [length, symbols] of /** @type {const} */ ([
    [8, 226],
    [9, 60],
    [4, 2],
    [5, 28],
  ])) {
    bits.code(codes[length], 3)
    let left = symbols - 1
    for (; left >= 3; left -= Math.min(6, left)) {
      bits.code(0, 1)
      bits.put(Math.min(6, left) - 3, 2)
    }
    for (; left > 0; left--) bits.code(codes[length], 3)
  }
  // The end of the block is symbol 256, the 31st of those with nine bits.
  bits.code(226 * 2 + 30, 9)
}

/** @param {number} bytes @returns {Buffer} */
export function emptyDeflate(bytes) {
  const bits = new Bits()
  while (bits.bytes < bytes - 40) emptyDynamicBlock(bits)
  // The last one has fixed codes.
  bits.put(0b011, 3)
  bits.put(0, 7)
  return bits.toBuffer()
}

/** @param {number} bytes */
export function emptyGzip(bytes) {
  return Buffer.concat([Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]), emptyDeflate(bytes - 18), Buffer.alloc(8)])
}

/** @param {number} bytes */
export function emptyZlib(bytes) {
  return Buffer.concat([Buffer.from([0x78, 0x9c]), emptyDeflate(bytes - 6), Buffer.from([0, 0, 0, 1])])
}

/**
 * Blocks that hold so many blanks each: with 7 they make just over half of what they are, with 20 more than they are, and a
 * decoder still spends its time on their tables. What they unfold to is one run of blanks.
 * @param {number} bytes @param {number} literals
 * @returns {Buffer}
 */
export function thinGzip(bytes, literals) {
  const bits = new Bits()
  let made = 0
  for (; bits.bytes < bytes - 60; made += literals) thinBlock(bits, literals)
  bits.put(0b011, 3)
  bits.put(0, 7)
  const end = Buffer.alloc(8)
  end.writeUInt32LE(crc32(Buffer.alloc(made, 0x20)))
  end.writeUInt32LE(made, 4)
  return Buffer.concat([Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]), bits.toBuffer(), end])
}

/** Two symbols of one bit each: a blank, and the end of the block. @param {Bits} bits @param {number} literals */
function thinBlock(bits, literals) {
  // 257 symbols, one distance, and 18 lengths of codes for lengths: 18 (zeros) has one bit, 0 and 1 have two.
  bits.put(0b100, 3)
  bits.put(0, 5)
  bits.put(0, 5)
  bits.put(14, 4)
  for (const length of [0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]) bits.put(length, 3)
  zeros(bits, 32)
  bits.code(0b11, 2)
  zeros(bits, 138)
  zeros(bits, 85)
  bits.code(0b11, 2)
  // The distance, which nothing uses.
  bits.code(0b11, 2)
  bits.put(0, literals)
  bits.put(1, 1)
}

/** @param {Bits} bits @param {number} count */
function zeros(bits, count) {
  bits.code(0, 1)
  bits.put(count - 11, 7)
}

/** Each block builds a table for 704 symbols, and holds one blank. @param {number} bytes @returns {Buffer} */
export function emptyBrotli(bytes) {
  const bits = new Bits()
  bits.put(0, 1)
  while (bits.bytes < bytes - 40) blankBlock(bits)
  bits.put(0b11, 2)
  return bits.toBuffer()
}

/** @param {Bits} bits */
function blankBlock(bits) {
  // Not the last; four nibbles say one byte; compressed; one type of each block, no postfix, one tree of each kind.
  bits.put(0, 1 + 2 + 16 + 1 + 3 + 2 + 4 + 2 + 2)
  // One literal: a blank.
  bits.put(0b0001, 4)
  bits.put(0x20, 8)
  // Insert and copy: 320 symbols of nine bits, then 384 of ten. Lengths of codes: 16 has one bit, 9 and 10 have two.
  bits.put(0, 2 + 8 * 2)
  bits.put(0b0111, 4)
  bits.put(0, 4)
  bits.put(0b011, 3)
  bits.put(0b011, 3)
  for (const [code, extras] of /** @type {const} */ ([
    [0b10, [3, 2, 2, 0]],
    [0b11, [0, 0, 2, 2, 0]],
  ])) {
    bits.code(code, 2)
    for (const extra of extras) {
      bits.code(0, 1)
      bits.put(extra, 2)
    }
  }
  // One distance, which nothing uses.
  bits.put(0b0001, 4)
  bits.put(0, 6)
  // Insert one literal.
  bits.code(8, 9)
}
