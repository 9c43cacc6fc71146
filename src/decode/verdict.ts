// The result of validating a body. Positions and counts are not part of it, but in the slot's words (ring/layout.ts).

import type { Errors } from '../contract/outcome.ts'

export type Validation =
  /** `appKey` is decoded. `extras`: the members that the schema does not name, as sent, joined by commas. */
  { readonly kind: 'accepted'; readonly appKey: string; readonly extras: string | null } | Refused

export interface Refused {
  readonly kind: 'refused'
  readonly code: 'invalid_json' | 'validation_failed'
  /** null: the body has no usable one, so it is refused before the app is looked up. */
  readonly appKey: string | null
  /** Of the body, decoded; null: none, or too long to be shown to the people who run the service. */
  readonly sdkVersion: string | null
  readonly message: string
  /**
   * The first offending members, in document order, how many there are, and what the first one is. null: the body is not
   * JSON. A text, since twenty objects would cost the acceptor five times as much to receive and to write.
   */
  readonly errors: Errors | null
}
