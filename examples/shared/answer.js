// The text of an answer, of bounded length.

/** An error where it is longer. @param {Response} response @param {number} maxBytes */
export async function textOf(response, maxBytes) {
  const start = await startOf(response, maxBytes + 1)
  if (start.length > maxBytes) throw new Error(`the answer is longer than ${maxBytes} bytes`)
  return start.toString()
}

/** The rest is not read. @param {Response} response @param {number} maxBytes */
export async function startOf(response, maxBytes) {
  const pieces = []
  let bytes = 0
  for await (const piece of response.body ?? []) {
    pieces.push(piece)
    bytes += piece.length
    if (bytes >= maxBytes) break
  }
  return Buffer.concat(pieces).subarray(0, maxBytes)
}
