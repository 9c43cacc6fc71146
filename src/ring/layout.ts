// The memory layout of the ring's two shared buffers. Every offset is named here, so that the acceptor and the pool's
// threads cannot disagree.
//
//   table   one entry of SLOT_WORDS 32-bit words (one cache line) per slot
//   ┌───────┬────────┬────────┬─────┬───────────────────────────────┬───────┬───────────┬───────┐
//   │ STATE │ OFFSET │ LENGTH │ END │ decoded: positions and counts │ KEYED │ EVENTS_HASH │ spare │
//   └───────┴────────┴────────┴─────┴───────────────────────────────┴───────┴───────────┴───────┘
//   bytes   the bodies, one after the other, wrapping around
//   ┌──────────┬──────────────┬──────────┬─────────┐┌──────────┬─────── …
//   │ headroom │ body         │ sentinel │ padding ││ headroom │ body
//   └──────────┴──────────────┴──────────┴─────────┘└──────────┴─────── …
//              ▲ OFFSET        ▲ +LENGTH             ▲ END

/** KEYED: 1 where the request has an idempotency key; only then does the pool write EVENTS_HASH. */
export const WORD = { STATE: 0, OFFSET: 1, LENGTH: 2, END: 3, DECODED: 4, KEYED: 13, EVENTS_HASH: 14 } as const

/** 64 bytes, so that two threads never write to the same cache line. */
export const SLOT_WORDS = 16

/**
 * The index of each number in the decoded words of a slot. Positions are byte offsets from the start of the body, ends
 * are exclusive, and start = end = 0 means that the member is absent.
 */
export const FIELD = {
  /** The characters of `app_key`, without its quotes. */
  appKeyStart: 0,
  appKeyEnd: 1,
  /** `sdk_version` as sent, with its quotes. */
  sdkVersionStart: 2,
  sdkVersionEnd: 3,
  /** The `events` array as sent, with its brackets. */
  eventsStart: 4,
  eventsEnd: 5,
  /** The number of events of each type. */
  track: 6,
  screen: 7,
  revenue: 8,
} as const

export const DECODED_WORDS = 9

if (WORD.DECODED + DECODED_WORDS > WORD.KEYED) throw new Error('a decoded body does not fit into a slot')

/** The owner of a slot. The states follow each other in this order, and only the owner moves a slot on. */
export const STATE = {
  /** No owner. */
  FREE: 0,
  /** The acceptor, which writes the body. */
  CLAIMED: 1,
  /** The pool: the body is complete, and nobody else may write it. */
  ARRIVED: 2,
  /** The acceptor again: the decoded words are valid. */
  DECODED: 3,
} as const

/** Bytes after a body, in which the scanner writes NULs so that it need not test for the end. */
export const SENTINEL_BYTES = 8

/** Bytes before a body, in which the head of its queue record is written. */
export const HEADROOM_BYTES = 256

/** Bodies begin at multiples of this, so that the scanner can read whole words. */
export const ALIGNMENT_BYTES = 8

/** Bytes of the ring that a body takes. */
export function footprintBytes(lengthBytes: number): number {
  const bytes = HEADROOM_BYTES + lengthBytes + SENTINEL_BYTES
  return (bytes + ALIGNMENT_BYTES - 1) & ~(ALIGNMENT_BYTES - 1)
}

/** The buffers that the acceptor and the pool share. */
export interface SharedMemory {
  /** The scanners' memory: bodies, and what each scanner has learnt (memory.ts). */
  readonly bytes: WebAssembly.Memory
  readonly table: SharedArrayBuffer
}
