// The text of an answer, of bounded length.

/** An error where it is longer. @param {Response} response @param {number} maxBytes */
export async function textOf(response, maxBytes) {
  const pieces = []
  let bytes = 0
  for await (const piece of response.body ?? []) {
    bytes += piece.length
    if (bytes > maxBytes) throw new Error(`the answer is longer than ${maxBytes} bytes`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString()
}
