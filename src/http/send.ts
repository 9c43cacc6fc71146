// Writes one answer, on either port. What the engine's calls do is not what their names say: their order matters here.

import type { HttpResponse } from 'uWebSockets.js'

export interface Reply {
  readonly status: string
  readonly contentType: string
  /** Further header lines, each led by CRLF. */
  readonly headers: string
  readonly body: string
  /** For HEAD: the headers of the answer, and no body. */
  readonly withoutBody: boolean
  /** The connection takes no more requests. */
  readonly thenClose: boolean
}

/** The engine closes an idle connection after 9 to 12 s. Clients that listen to this stop using it before that. */
const KEEP_ALIVE = '\r\nKeep-Alive: timeout=8'

/**
 * Sends an answer. False: the client leaves its earlier answers unread until no more of them fit into its socket, so
 * the connection was closed instead, and the engine has called `onAborted`.
 */
export function send(response: HttpResponse, reply: Reply): boolean {
  const { status, contentType, headers, body, withoutBody, thenClose } = reply
  let isTaken = true
  response.cork(() => {
    // All header lines go in one call: each call into the engine costs as much as writing them all.
    const keepAlive = thenClose ? '' : KEEP_ALIVE
    response.writeStatus(status).writeHeader('Content-Type', contentType + headers + keepAlive)
    if (withoutBody) isTaken = endWithoutBody(response, reply)
    // This does not say whether earlier answers are unread, but no other follows it.
    else if (thenClose) response.end(body, true)
    else isTaken = end(response, body)
  })
  if (!isTaken) response.close()
  return isTaken
}

function end(response: HttpResponse, body: string): boolean {
  const lengthBytes = Buffer.byteLength(body)
  const [isTaken] = response.tryEnd(body, lengthBytes)
  if (isTaken) return true
  // A body that is larger than what the socket takes at once is sent on as the client reads.
  if (response.getWriteOffset() === 0) return false
  const bytes = Buffer.from(body)
  response.onWritable((offset) => response.tryEnd(bytes.subarray(offset), lengthBytes)[0])
  return true
}

function endWithoutBody(response: HttpResponse, { body, thenClose }: Reply): boolean {
  if (thenClose) response.writeHeader('Connection', 'close')
  const [isTaken, isWhole] = response.tryEnd('', Buffer.byteLength(body))
  // This ends the answer on the engine of 2026. The one of 2024 goes on to wait for the bytes of the body.
  if (isTaken && !isWhole) response.endWithoutBody()
  return isTaken
}
