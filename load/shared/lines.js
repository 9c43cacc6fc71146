// @ts-check
// The lines of a stream of bytes, one for each line feed. node:readline ends a line at U+2028 and U+2029 too, which JSON has in
// strings.

const LINE_FEED = 0x0a

/** @param {AsyncIterable<Buffer>} pieces @returns {AsyncGenerator<string>} */
export async function* linesOf(pieces) {
  let rest = Buffer.alloc(0)
  for await (const piece of pieces) {
    rest = Buffer.concat([rest, piece])
    let start = 0
    for (let end = rest.indexOf(LINE_FEED); end !== -1; end = rest.indexOf(LINE_FEED, start)) {
      yield rest.toString('utf8', start, end)
      start = end + 1
    }
    rest = rest.subarray(start)
  }
  if (rest.length > 0) yield rest.toString()
}
