// Records as lines: those of one message, and a line that is made longer, to fill a block of the disk, by spaces before
// the brace that ends it, where JSON allows them.

const NEWLINE = 10
const SPACE = 32
const BRACE_CLOSE = 125
const END_OF_LINE = Buffer.from('}\n')

/** Each record of a message without its newline; the last one need not have one. */
export function* recordsOf(message: Uint8Array): Generator<Buffer> {
  const data = Buffer.from(message.buffer, message.byteOffset, message.length)
  for (let start = 0; start < data.length; ) {
    const newlineAt = data.indexOf(NEWLINE, start)
    const end = newlineAt < 0 ? data.length : newlineAt
    yield data.subarray(start, end)
    start = end + 1
  }
}

/** Makes the line that ends at `end` so much longer, by spaces before its brace. Returns its new end. */
export function fill(bytes: Buffer, end: number, paddingBytes: number): number {
  if (paddingBytes === 0) return end
  const braceAt = end - END_OF_LINE.length
  bytes.fill(SPACE, braceAt, braceAt + paddingBytes)
  bytes.set(END_OF_LINE, braceAt + paddingBytes)
  return end + paddingBytes
}

/** A line, without its newline, as it was before it was filled. */
export function unfilled(line: Buffer): Buffer {
  let end = line.length - 1
  if (line[end] !== BRACE_CLOSE || line[end - 1] !== SPACE) return line
  while (line[end - 1] === SPACE) end -= 1
  return Buffer.concat([line.subarray(0, end), line.subarray(-1)])
}
