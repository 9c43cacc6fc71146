// A hash of a whole body, to tell a repeat under one idempotency key from another body. It is not for secrets: a client
// that makes two of its bodies alike deceives nobody but itself.

/** Odd, so that each step keeps all differences. From xxHash and MurmurHash3. */
const STEP: u64 = 0x9e3779b185ebca87
const MIX: u64 = 0xff51afd7ed558ccd
const LANE_STEP: i32 = 0x5bd1e995

/** The sums of products of neighbours in a block, each place with a factor of its own. */
@inline
function products(p: i32, factors: v128): v128 {
  const one = i32x4.dot_i16x8_s(v128.load(p), factors)
  const two = i32x4.dot_i16x8_s(v128.load(p, 16), i16x8.add(factors, i16x8.splat(0x1357)))
  const three = i32x4.dot_i16x8_s(v128.load(p, 32), i16x8.add(factors, i16x8.splat(0x2b9d)))
  const four = i32x4.dot_i16x8_s(v128.load(p, 48), i16x8.add(factors, i16x8.splat(0x4c71)))
  return i32x4.add(i32x4.add(one, two), i32x4.add(three, four))
}

function step(lane: u64, word: u64): u64 {
  return rotl<u64>(lane ^ word, 29) * STEP
}

/** Folded to 32 bits, and never 0. */
export function hash(start: i32, end: i32): i32 {
  const factors = i16x8(0x1f35, -0x2a6b, 0x3c9d, -0x4e17, 0x58c3, -0x0b79, 0x61a5, -0x7d2f)
  const factor = i32x4.splat(LANE_STEP)
  let one = i32x4.splat(1)
  let two = i32x4.splat(2)
  let three = i32x4.splat(3)
  let four = i32x4.splat(4)
  let p = start
  for (; p + 256 <= end; p += 256) {
    one = i32x4.add(i32x4.mul(one, factor), products(p, factors))
    two = i32x4.add(i32x4.mul(two, factor), products(p + 64, factors))
    three = i32x4.add(i32x4.mul(three, factor), products(p + 128, factors))
    four = i32x4.add(i32x4.mul(four, factor), products(p + 192, factors))
  }
  for (; p + 64 <= end; p += 64) one = i32x4.add(i32x4.mul(one, factor), products(p, factors))
  let mixed: u64 = <u64>(end - start)
  mixed = step(step(mixed, i64x2.extract_lane(one, 0)), i64x2.extract_lane(one, 1))
  mixed = step(step(mixed, i64x2.extract_lane(two, 0)), i64x2.extract_lane(two, 1))
  mixed = step(step(mixed, i64x2.extract_lane(three, 0)), i64x2.extract_lane(three, 1))
  mixed = step(step(mixed, i64x2.extract_lane(four, 0)), i64x2.extract_lane(four, 1))
  for (; p + 8 <= end; p += 8) mixed = step(mixed, load<u64>(p))
  // The bytes behind the body are shifted out. A body is followed by at least eight that may be read.
  if (p < end) mixed = step(mixed, load<u64>(p) << (<u64>(8 - (end - p)) << 3))
  mixed = (mixed ^ (mixed >> 33)) * MIX
  const folded = <i32>(mixed ^ (mixed >> 32))
  return folded == 0 ? 1 : folded
}
