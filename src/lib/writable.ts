/** For an object that is written over again and again, and shown as one that is not. */
export type Writable<T> = { -readonly [Name in keyof T]: T[Name] }
