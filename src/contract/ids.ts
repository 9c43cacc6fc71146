// Batch ids: derived from app and key where the client sent an Idempotency-Key (UUIDv5), fresh otherwise (UUIDv7).
// Both are on the path of every request, so the text is put together from character codes.

import { hash } from 'node:crypto'

/**
 * The 16 bytes of the namespace 736c7569-6365-4bc3-a976-656e74732e31. They are valid UTF-8 on purpose, so that
 * namespace and name are hashed as one string, in one call, without a buffer between.
 */
const NAMESPACE = 'sluiceK\u00e9vents.1'

const DASH = 45
/** ASCII code of each hexadecimal digit. */
const DIGIT_CODES = Array.from('0123456789abcdef', (digit) => digit.charCodeAt(0))
const UUID_BYTES = 16
const UUID_CHARACTERS = 36
const UUID_PATTERN = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Character codes of the id in the making; the dashes stand already. Filled and read within one call. */
const codes = Array.from({ length: UUID_CHARACTERS }, () => DASH)

export function isAppId(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(text)
}

/** Whether a text is a UUID of any version and any letter case, the nil UUID included. */
export function isUuid(text: string): boolean {
  return text.length === UUID_CHARACTERS && UUID_PATTERN.test(text)
}

/** When an id of version 7 was made, which its first 48 bits tell; null: the text is another one. */
export function timeOfId(text: string): number | null {
  return isUuid(text) && text[14] === '7' ? Number.parseInt(text.slice(0, 8) + text.slice(9, 13), 16) : null
}

/**
 * The batch id of a keyed request: UUIDv5 of app and key, the same on every node and after every restart.
 * An `appId` holds no colon, so no two pairs give one name. The key comes in lower case.
 */
export function batchIdOf(appId: string, idempotencyKeyLowerCase: string): string {
  return idOfName(`${appId}:${idempotencyKeyLowerCase}`)
}

/** UUIDv5. */
export function idOfName(name: string): string {
  const digest = hash('sha1', `${NAMESPACE}${name}`, 'binary')
  for (let index = 0; index < UUID_BYTES; index++) {
    let byte = digest.charCodeAt(index)
    if (index === 6) byte = 0x50 | (byte & 0x0f)
    else if (index === 8) byte = 0x80 | (byte & 0x3f)
    putByte(index, byte)
  }
  return String.fromCharCode.apply(null, codes)
}

/** Fills a buffer with random bytes: `randomFillSync`, or a seeded source in tests. */
export type RandomFill = (buffer: Uint8Array) => unknown

/** A call for random bytes costs as much as hundreds of ids. */
const POOLED_IDS = 4096
/** Random bytes an id takes from the pool: 8 for its tail, 2 to seed the counter of a new millisecond. */
const RANDOM_BYTES_PER_ID = 10
/** The counter is the 12 bits after the version; half of them stay free for ids of the same millisecond. */
const COUNTER_LIMIT = 0x1000
const COUNTER_SEED_MASK = 0x7ff

/**
 * Makes fresh UUIDv7 ids, each greater than the one before (RFC 9562, section 6.2, method 1). When the clock
 * steps back, or more ids are asked for than one millisecond holds, the time inside the ids runs ahead instead.
 */
export function createFreshIds(fillRandom: RandomFill, pooledIds = POOLED_IDS): (nowMs: number) => string {
  const pool = new Uint8Array(pooledIds * RANDOM_BYTES_PER_ID)
  let poolOffset = pool.length
  let lastMs = -1
  let counter = 0

  return function freshId(nowMs: number): string {
    if (poolOffset === pool.length) {
      fillRandom(pool)
      poolOffset = 0
    }
    const random = poolOffset
    poolOffset += RANDOM_BYTES_PER_ID
    counter++
    if (nowMs > lastMs || counter === COUNTER_LIMIT) {
      lastMs = Math.max(nowMs, lastMs + 1)
      counter = ((pool[random + 8] << 8) | pool[random + 9]) & COUNTER_SEED_MASK
    }
    const highMs = Math.floor(lastMs / 0x100000000)
    const lowMs = lastMs >>> 0
    putByte(0, highMs >>> 8)
    putByte(1, highMs & 0xff)
    putByte(2, lowMs >>> 24)
    putByte(3, (lowMs >>> 16) & 0xff)
    putByte(4, (lowMs >>> 8) & 0xff)
    putByte(5, lowMs & 0xff)
    putByte(6, 0x70 | (counter >>> 8))
    putByte(7, counter & 0xff)
    putByte(8, 0x80 | (pool[random] & 0x3f))
    for (let index = 9; index < UUID_BYTES; index++) putByte(index, pool[random + index - 8])
    return String.fromCharCode.apply(null, codes)
  }
}

/** Writes one byte of the id as two digits, past the dashes that stand before it. */
function putByte(index: number, byte: number): void {
  const dashes = index < 4 ? 0 : index < 6 ? 1 : index < 8 ? 2 : index < 10 ? 3 : 4
  const at = 2 * index + dashes
  codes[at] = DIGIT_CODES[byte >>> 4]
  codes[at + 1] = DIGIT_CODES[byte & 0x0f]
}
