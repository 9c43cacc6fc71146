// Checks the bytes above 127 of a string, sixteen at a time, by the method of Keiser and Lemire: what is wrong with two
// neighbouring bytes is looked up by three of their four half bytes, and is wrong only where all three agree.

// What can be wrong with a byte and the one before it.
const TOO_SHORT: i8 = 1 // a first byte, or ASCII, where the one before wants a further byte
const TOO_LONG: i8 = 2 // a further byte after ASCII
const LONG_FORM_OF_3: i8 = 4 // E0 80 to E0 9F
const TOO_LARGE: i8 = 8 // F4 90 and more
const SURROGATE: i8 = 16 // ED A0 to ED BF
const LONG_FORM_OF_2: i8 = 32 // C0 and C1
const FROM_F0_8X: i8 = 64 // F0 80 to F0 8F, and F5 80 and more
const TWO_FURTHER: i8 = -128 // two further bytes: right only in a character of three or four

/** Wrong by the high half of the earlier byte and all halves of the later one, whatever the low half is. */
const ANY_LOW: i8 = TOO_SHORT | TOO_LONG | TWO_FURTHER
const LARGE_LOW: i8 = ANY_LOW | TOO_LARGE | FROM_F0_8X
const FURTHER: i8 = TOO_LONG | TWO_FURTHER | LONG_FORM_OF_2

/** The first quote, backslash or control character from `p` on; -1 where the bytes before it are not UTF-8. */
export function utf8End(p: i32): i32 {
  // Before `p` stands ASCII, and so does the zero of this.
  let before = i64x2(0, 0)
  while (true) {
    const chunk = v128.load(p)
    // As in `plainEnd`, except for bytes above 127.
    const special = i8x16.bitmask(
      v128.or(
        i8x16.lt_u(v128.xor(chunk, i8x16.splat(2)), i8x16.splat(0x21)),
        i8x16.eq(chunk, i8x16.splat(0x5c)),
      ),
    )
    const wrong = i8x16.bitmask(i8x16.ne(faults(chunk, before), i8x16.splat(0)))
    // A character that is cut off is wrong at the byte after it, so that the first special byte counts too.
    if (special != 0) {
      const length = ctz(special)
      return (wrong & ((2 << length) - 1)) == 0 ? p + length : -1
    }
    if (wrong != 0) return -1
    before = chunk
    p += 16
  }
}

/** What is wrong with each byte of `chunk`; `before`: the sixteen bytes before it. */
@inline
function faults(chunk: v128, before: v128): v128 {
  const prior = i8x16.shuffle(before, chunk, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30)
  const second = i8x16.shuffle(before, chunk, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29)
  const third = i8x16.shuffle(before, chunk, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28)
  const byPriorHigh = i8x16.swizzle(
    i8x16(
      TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG,
      TWO_FURTHER, TWO_FURTHER, TWO_FURTHER, TWO_FURTHER,
      TOO_SHORT | LONG_FORM_OF_2,
      TOO_SHORT,
      TOO_SHORT | LONG_FORM_OF_3 | SURROGATE,
      TOO_SHORT | TOO_LARGE | FROM_F0_8X,
    ),
    i8x16.shr_u(prior, 4),
  )
  const byPriorLow = i8x16.swizzle(
    i8x16(
      ANY_LOW | LONG_FORM_OF_2 | LONG_FORM_OF_3 | FROM_F0_8X,
      ANY_LOW | LONG_FORM_OF_2,
      ANY_LOW, ANY_LOW,
      ANY_LOW | TOO_LARGE,
      LARGE_LOW, LARGE_LOW, LARGE_LOW, LARGE_LOW, LARGE_LOW, LARGE_LOW, LARGE_LOW, LARGE_LOW,
      LARGE_LOW | SURROGATE,
      LARGE_LOW, LARGE_LOW,
    ),
    v128.and(prior, i8x16.splat(15)),
  )
  const byHigh = i8x16.swizzle(
    i8x16(
      TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,
      FURTHER | LONG_FORM_OF_3 | FROM_F0_8X,
      FURTHER | LONG_FORM_OF_3 | TOO_LARGE,
      FURTHER | SURROGATE | TOO_LARGE,
      FURTHER | SURROGATE | TOO_LARGE,
      TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,
    ),
    i8x16.shr_u(chunk, 4),
  )
  const wrong = v128.and(v128.and(byPriorHigh, byPriorLow), byHigh)
  // The third byte of three and the third and fourth of four must be the second of two further bytes, and no other may.
  const wanted = v128.or(i8x16.ge_u(second, i8x16.splat(-32)), i8x16.ge_u(third, i8x16.splat(-16)))
  return v128.xor(wrong, v128.and(wanted, i8x16.splat(TWO_FURTHER)))
}
