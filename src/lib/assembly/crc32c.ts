// CRC32C (Castagnoli), 2 GB/s by tables, and above 20 GB/s where there is a megabyte. WebAssembly has no instruction for it.
//
// Many bytes are first folded, after "Chorba" (Russell, 2024; zlib-ng): x^5275 + x^4508 + x^2751 + 1 is a multiple of the
// polynomial, and so is its eighth power, in which each step is a byte. So a byte can be left out where it is added to
// those 767, 2,524 and 5,275 places behind it, and 16 bytes are folded by three additions. The tables then see the rest.
//
//   0 tables │ 8,192 FOLDED: the last FAR folded bytes, and those of the piece in hand │ 65,536 the bytes to be checked

const TABLES: i32 = 0
const FOLDED: i32 = 8192
const NEAR: i32 = 767
const MIDDLE: i32 = 2524
const FAR: i32 = 5275
/** FAR, rounded up so that whole vectors are kept of it. */
const KEPT: i32 = 5280
const PIECE: i32 = 16384
/** Fewer bytes cost less by the tables alone. */
const MIN_FOLDED: i32 = 16384
const POLYNOMIAL: u32 = 0x82f63b78

/** To be called once. */
export function prepare(): void {
  for (let byte = 0; byte < 256; byte++) {
    let crc: u32 = byte
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1
    store<u32>(TABLES + (byte << 2), crc)
  }
  for (let table = 1; table < 8; table++) {
    for (let byte = 0; byte < 256; byte++) {
      const before = load<u32>(TABLES + ((table - 1) << 10) + (byte << 2))
      store<u32>(TABLES + (table << 10) + (byte << 2), (before >>> 8) ^ load<u32>(TABLES + ((before & 255) << 2)))
    }
  }
}

@inline
function look(table: i32, word: u32, shift: u32): u32 {
  return load<u32>(TABLES + (table << 10) + (((word >>> shift) & 255) << 2))
}

/** Eight bytes at a time, one by each table. */
function byTables(before: u32, from: i32, end: i32): u32 {
  let crc = before
  let at = from
  for (; at + 8 <= end; at += 8) {
    const low = load<u32>(at) ^ crc
    const high = load<u32>(at, 4)
    crc =
      look(7, low, 0) ^ look(6, low, 8) ^ look(5, low, 16) ^ look(4, low, 24) ^
      look(3, high, 0) ^ look(2, high, 8) ^ look(1, high, 16) ^ look(0, high, 24)
  }
  for (; at < end; at++) crc = (crc >>> 8) ^ look(0, crc ^ load<u8>(at), 0)
  return crc
}

/** The 16 bytes at `from` with what was folded before them. */
@inline
function fold(from: i32, to: i32): void {
  const near = v128.xor(v128.load(from), v128.load(to - NEAR))
  v128.store(to, v128.xor(near, v128.xor(v128.load(to - MIDDLE), v128.load(to - FAR))))
}

/** Adds to the bytes at `to` the folded ones that lie `distance` before them, of those before `to` alone. */
function addFolded(to: i32, distance: i32): void {
  for (let at = to; at < to + distance; at++) store<u8>(at, load<u8>(at) ^ load<u8>(KEPT_END + (at - to) - distance))
}

const KEPT_END: i32 = FOLDED + KEPT

/** Of the sum that was begun: its first byte, and the first one that is not folded yet. */
let start: i32 = 0
let from: i32 = 0

/** Begins the sum of bytes from `at` on. They are only read: they may be on their way to the disk. */
export function begin(at: i32): void {
  start = at
  from = at
}

/** Folds what it can of the bytes up to `end`, behind which others may come. */
export function add(end: i32): void {
  if (end - start < MIN_FOLDED) return
  if (from == start) memory.fill(FOLDED, 0, KEPT)
  // Alone, since the first four bytes change before others are folded with them.
  let bytes = from == start ? 64 : min(end - KEPT - from, PIECE) & ~63
  while (bytes > 0) {
    const isFirst = from == start
    for (let to = KEPT_END; to < KEPT_END + bytes; to += 64, from += 64) {
      fold(from, to)
      fold(from + 16, to + 16)
      fold(from + 32, to + 32)
      fold(from + 48, to + 48)
    }
    // The sum begins with all bits set, as if the first four bytes were inverted.
    if (isFirst) store<u32>(KEPT_END, ~load<u32>(KEPT_END))
    memory.copy(FOLDED, FOLDED + bytes, KEPT)
    bytes = min(end - KEPT - from, PIECE) & ~63
  }
}

/** The sum of all bytes up to `end`. */
export function finish(end: i32): u32 {
  add(end)
  if (from == start) return ~byTables(~0, start, end)
  memory.copy(KEPT_END, from, end - from)
  addFolded(KEPT_END, NEAR)
  addFolded(KEPT_END, MIDDLE)
  addFolded(KEPT_END, FAR)
  return ~byTables(0, KEPT_END, KEPT_END + (end - from))
}
