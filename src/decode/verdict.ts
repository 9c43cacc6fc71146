// What the validator concludes of a body. Positions and counts travel apart from it, in the slot's words (ring/layout.ts).

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
