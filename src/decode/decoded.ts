// What decode says of a body: the numbers a slot carries back from a pool thread, and the notes that do not
// fit into numbers. Shared by the threads that write them and the front end that reads them.

/** Most events in one request. */
export const MAX_EVENTS = 100
/** Most containers open at one time in a body. */
export const MAX_DEPTH = 64
/** Most keys in `properties` and `revenue`, and most characters in each value. */
export const MAX_KEYS = 50
export const MAX_VALUE_CHARACTERS = 500
/** Bytes after a body that belong to it: the scanner writes them, so that it need not test for the end. */
export const SENTINEL_BYTES = 8

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

/** What the validator concludes of one body; `Position` numbers as in FIELD are written apart from it. */
export type Validation =
  /** Fits. `appKey` is decoded; `extras` holds the members the schema does not name, as sent, joined by commas. */
  | { readonly kind: 'accepted'; readonly appKey: string; readonly extras: string | null }
  /** Refused. `appKey` is null where the body has no usable one, so that the refusal comes before the app is asked. */
  | {
      readonly kind: 'refused'
      readonly code: 'invalid_json' | 'validation_failed'
      readonly appKey: string | null
      readonly message: string
    }
