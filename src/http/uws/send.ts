// Writes one answer of the public port. The order of the engine's calls matters, and their names do not say what they do.

import type { HttpResponse } from 'uWebSockets.js'
import { KEEP_ALIVE, type Reply } from '../wire.ts'

/**
 * Of so many short answers one looks whether its socket is full, since to ask costs half a microsecond or more: a
 * client that reads none of its answers is found out some answers later, and what it leaves unread stays small.
 */
const SHORT_ANSWERS_PER_LOOK = 8
const SHORT_BYTES = 64
/** On all connections. */
let shortAnswers = 0

/** The answer that is being sent: `cork` calls back at once, and a closure an answer costs as much as its header lines. */
const sending = {
  response: null as HttpResponse | null,
  reply: null as Reply | null,
  isTaken: true,
  isEnded: true,
}

/**
 * Sends an answer. false: the client does not read its earlier answers and its socket is full, so the connection was
 * closed instead. The engine has then called `onAborted`.
 */
export function send(response: HttpResponse, reply: Reply): boolean {
  sending.response = response
  sending.reply = reply
  sending.isTaken = true
  sending.isEnded = true
  response.cork(writeReply)
  sending.response = null
  sending.reply = null
  const { isTaken, isEnded } = sending
  if (!isTaken || !isEnded) response.close()
  return isTaken
}

function writeReply(): void {
  const { response, reply } = sending
  if (response === null || reply === null) return
  const { status, contentType, headers, withoutBody, thenClose } = reply
  const lengthBytes = Buffer.byteLength(reply.body)
  // Bytes where it is not ASCII: the engine of 2026 writes a string that has no character above U+00FF as Latin-1.
  const body = lengthBytes === reply.body.length ? reply.body : Buffer.from(reply.body)
  // Status and headers in one call, since each call into the engine costs as much as writing all headers.
  const keepAlive = thenClose ? '' : KEEP_ALIVE
  response.writeStatus(`${status}\r\nContent-Type: ${contentType}${headers}${keepAlive}`)
  if (withoutBody) sending.isEnded = endWithoutBody(response, lengthBytes)
  // `end` does not report a full socket. That is harmless here, since this is the last answer.
  else if (thenClose) response.end(body, true)
  else if (lengthBytes <= SHORT_BYTES && ++shortAnswers % SHORT_ANSWERS_PER_LOOK !== 0) response.end(body)
  else sending.isTaken = end(response, body, lengthBytes)
}

function end(response: HttpResponse, body: string | Buffer, lengthBytes: number): boolean {
  const [isTaken] = response.tryEnd(body, lengthBytes)
  if (isTaken) return true
  // The socket took a part of the body: the rest is sent as the client reads.
  if (response.getWriteOffset() === 0) return false
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  response.onWritable((offset) => response.tryEnd(bytes.subarray(offset), lengthBytes)[0])
  return true
}

/**
 * Says the length of the body, also of one that is empty, since the engine ends a connection in no other call. false: the
 * engine of 2024, which would wait for the bytes of the body, so that its connection is to be closed.
 */
function endWithoutBody(response: HttpResponse, lengthBytes: number): boolean {
  // By its functions, as in load.ts.
  const isNewEngine = 'collectBody' in response
  if (isNewEngine || lengthBytes === 0) response.endWithoutBody(lengthBytes, true)
  else response.writeHeader('Connection', 'close').tryEnd('', lengthBytes)
  return isNewEngine || lengthBytes === 0
}
