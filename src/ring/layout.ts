// The memory drawing of the ring: where everything lies in the two shared buffers. Every offset used anywhere
// is named here, so that the front end and the pool's threads cannot disagree.
//
//   table   one entry of SLOT_WORDS 32-bit words (one cache line) a slot
//   ┌───────┬────────┬────────┬─────┬──────────────────────────────┬───────┐
//   │ STATE │ OFFSET │ LENGTH │ END │ decoded: positions and counts │ spare │
//   └───────┴────────┴────────┴─────┴──────────────────────────────┴───────┘
//   bytes   the bodies, one behind the other, round and round
//   ┌──────────┬──────────────┬──────────┬─────────┐┌──────────┬─────── …
//   │ headroom │ body         │ sentinel │ padding ││ headroom │ body
//   └──────────┴──────────────┴──────────┴─────────┘└──────────┴─────── …
//              ▲ OFFSET        ▲ +LENGTH             ▲ END

export const WORD = { STATE: 0, OFFSET: 1, LENGTH: 2, END: 3, DECODED: 4 } as const

/** 64 bytes: two threads never write into one cache line. */
export const SLOT_WORDS = 16

/**
 * Index of each number within a decoded body's run of 32-bit words. Positions are byte offsets from the
 * start of the body; an end is exclusive; start = end = 0 says the member is absent.
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
  /** How many events of each type. */
  track: 6,
  screen: 7,
  revenue: 8,
} as const

/** Words a decoded body takes. */
export const DECODED_WORDS = 9

if (WORD.DECODED + DECODED_WORDS > SLOT_WORDS) throw new Error('a decoded body does not fit into a slot')

/** Who owns a slot. It moves on in this order, and only its owner moves it. */
export const STATE = {
  /** Nobody's. */
  FREE: 0,
  /** The front end's: the body is being written. */
  CLAIMED: 1,
  /** The pool's: the body is whole and may not be written by anyone else. */
  ARRIVED: 2,
  /** The front end's again: the decoded words are true. */
  DECODED: 3,
} as const

/** Bytes after a body that belong to it: the scanner writes them, so that it need not test for the end. */
export const SENTINEL_BYTES = 8

/** Room before a body, in which its queue record's head is written when the batch is accepted. */
export const HEADROOM_BYTES = 256

/** Bodies begin at multiples of this, which lets the scanner read whole words. */
export const ALIGNMENT_BYTES = 8

/** Room that a body of so many bytes takes. */
export function footprintBytes(lengthBytes: number): number {
  const bytes = HEADROOM_BYTES + lengthBytes + SENTINEL_BYTES
  return (bytes + ALIGNMENT_BYTES - 1) & ~(ALIGNMENT_BYTES - 1)
}

/** The buffers that front end and pool share. */
export interface SharedMemory {
  /** Memory of the scanner's, in which nothing but bodies lies. */
  readonly bytes: WebAssembly.Memory
  readonly table: SharedArrayBuffer
}
