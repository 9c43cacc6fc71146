// Writes one answer, on either port. The order of the engine's calls matters, and their names do not say what they do.

import type { HttpResponse } from 'uWebSockets.js'

export interface Reply {
  readonly status: string
  readonly contentType: string
  /** Further header lines, each led by CRLF. */
  readonly headers: string
  readonly body: string | Uint8Array
  /** For HEAD: send the headers only. */
  readonly withoutBody: boolean
  /** The connection takes no more requests. */
  readonly thenClose: boolean
}

/** The engine closes an idle connection after 9 to 12 s. Clients that respect this header stop using it before that. */
const KEEP_ALIVE = '\r\nKeep-Alive: timeout=8'

/**
 * Sends an answer. false: the client does not read its earlier answers and its socket is full, so the connection was
 * closed instead. The engine has then called `onAborted`.
 */
export function send(response: HttpResponse, reply: Reply): boolean {
  const { status, contentType, headers, body, withoutBody, thenClose } = reply
  let isTaken = true
  response.cork(() => {
    // All headers in one call, since each call into the engine costs as much as writing all headers.
    const keepAlive = thenClose ? '' : KEEP_ALIVE
    response.writeStatus(status).writeHeader('Content-Type', contentType + headers + keepAlive)
    if (withoutBody) isTaken = endWithoutBody(response, reply)
    // `end` does not report a full socket. That is harmless here, since this is the last answer.
    else if (thenClose) response.end(body, true)
    else isTaken = end(response, body)
  })
  if (!isTaken) response.close()
  return isTaken
}

function end(response: HttpResponse, body: string | Uint8Array): boolean {
  const lengthBytes = Buffer.byteLength(body)
  const [isTaken] = response.tryEnd(body, lengthBytes)
  if (isTaken) return true
  // The socket took a part of the body: the rest is sent as the client reads.
  if (response.getWriteOffset() === 0) return false
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  response.onWritable((offset) => response.tryEnd(bytes.subarray(offset), lengthBytes)[0])
  return true
}

function endWithoutBody(response: HttpResponse, { body, thenClose }: Reply): boolean {
  if (thenClose) response.writeHeader('Connection', 'close')
  const [isTaken, isWhole] = response.tryEnd('', Buffer.byteLength(body))
  // `tryEnd` ends the answer on the engine of 2026. The engine of 2024 would wait for the bytes of the body.
  if (isTaken && !isWhole) response.endWithoutBody()
  return isTaken
}
