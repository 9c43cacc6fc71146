// What replies of Redis look like. The link checks every reply by one of these, before anything is done with it: one of another shape is
// no answer.

const MAX_DATE_MS = 8.64e15

/** The reply has not the shape that its command has. */
export class BadReply extends Error {
  constructor() {
    super('an answer is not of the shape that its command has')
  }
}

/** Returns what a reply says; throws a BadReply where it has another shape. */
export type Read<T> = (reply: unknown) => T

export function must(isOfShape: boolean): asserts isOfShape {
  if (!isOfShape) throw new BadReply()
}

export const integer: Read<number> = (reply) => {
  must(Number.isSafeInteger(reply))
  return reply as number
}

/** A time that a Date can hold. */
export const unixMs: Read<number> = (reply) => {
  const ms = integer(reply)
  must(ms >= 0 && ms <= MAX_DATE_MS)
  return ms
}

export const text: Read<string> = (reply) => {
  must(typeof reply === 'string')
  return reply
}

export const textOrNull: Read<string | null> = (reply) => (reply === null ? null : text(reply))

/** Of exactly `length` items, where it is given. */
export function listOf<T>(item: Read<T>, length?: number): Read<T[]> {
  return (reply) => {
    must(Array.isArray(reply) && (length === undefined || reply.length === length))
    return reply.map((one: unknown) => item(one))
  }
}

/** Of a list, or of several commands, one reader for each. */
export function inOrder<T extends readonly unknown[]>(...items: { [At in keyof T]: Read<T[At]> }): Read<T> {
  return (reply) => {
    must(Array.isArray(reply) && reply.length === items.length)
    return items.map((item, at) => item(reply[at])) as unknown as T
  }
}

/** HGETALL, as the client returns it. */
export const fields: Read<Readonly<Record<string, string>>> = (reply) => {
  must(typeof reply === 'object' && reply !== null && !Array.isArray(reply))
  must(Object.values(reply).every((value) => typeof value === 'string'))
  return reply as Record<string, string>
}
