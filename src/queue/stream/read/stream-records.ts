// What one message of the stream holds: records, one a line.

const NEWLINE = 10

/** Each record without its newline; the last one need not have one. */
export function* recordsOf(message: Uint8Array): Generator<Buffer> {
  const data = Buffer.from(message.buffer, message.byteOffset, message.length)
  for (let start = 0; start < data.length; ) {
    const newlineAt = data.indexOf(NEWLINE, start)
    const end = newlineAt < 0 ? data.length : newlineAt
    yield data.subarray(start, end)
    start = end + 1
  }
}
