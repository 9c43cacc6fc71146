// The result of validating a body. Positions and counts are not part of it, but in the slot's words (ring/layout.ts).

export type Validation =
  /** `appKey` is decoded. `extras`: the members that the schema does not name, as sent, joined by commas. */
  | { readonly kind: 'accepted'; readonly appKey: string; readonly extras: string | null }
  /** `appKey` null: the body has no usable one, so it is refused before the app is looked up. */
  | {
      readonly kind: 'refused'
      readonly code: 'invalid_json' | 'validation_failed'
      readonly appKey: string | null
      readonly message: string
    }
