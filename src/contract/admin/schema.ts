// The words that the schemas of the admin API and of the messages between nodes are written in. From a schema come its
// type, its check, and its part of openapi-admin.yaml.

import { type Static, type TSchema, Type } from './typebox.ts'

/** The type of what a schema describes. */
export type Of<Schema extends TSchema> = DeepReadonly<Static<Schema>>

type DeepReadonly<T> = unknown extends T
  ? T
  : T extends readonly (infer Item)[]
    ? readonly DeepReadonly<Item>[]
    : T extends object
      ? { readonly [Name in keyof T]: DeepReadonly<T[Name]> }
      : T

/** The largest time that a date can show. */
const MAX_TIME_MS = 8.64e15
const MAX_ITEMS = 1000

export const MAX_TEXT_CHARACTERS = 1000

/** Any text of an answer. */
export const Text = Type.String({ maxLength: MAX_TEXT_CHARACTERS })
/** `time` of an answer: RFC 3339, UTC, with milliseconds. */
export const Time = Type.String({
  description: 'RFC 3339, UTC, with milliseconds.',
  pattern: String.raw`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`,
})
export const TimeMs = Type.Number({ minimum: -MAX_TIME_MS, maximum: MAX_TIME_MS, description: 'Unix milliseconds.' })
export const OptionalText = orNull(Text)
export const OptionalNumber = orNull(Type.Number())
export const Counts = Type.Record(Type.String(), Type.Number(), { maxProperties: MAX_ITEMS })

export function orNull<Schema extends TSchema>(schema: Schema, description?: string) {
  return Type.Union([schema, Type.Null()], description === undefined ? {} : { description })
}

export function listOf<Schema extends TSchema>(
  schema: Schema,
  options: { description?: string; minItems?: number; maxItems?: number } = {},
) {
  return Type.Array(schema, { maxItems: MAX_ITEMS, ...options })
}

export function oneOf<const Words extends readonly string[]>(words: Words, description?: string) {
  return Type.Unsafe<Words[number]>({ enum: words, ...(description === undefined ? {} : { description }) })
}

/** Said of the same value where it stands in another place. */
export function said<Schema extends TSchema>(schema: Schema, description: string): Schema {
  return { ...schema, description }
}
