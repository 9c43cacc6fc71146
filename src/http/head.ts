// A request's head as the rest of the service sees it: plain values, read once, nothing of uWebSockets.js.

import type { HttpRequest } from 'uWebSockets.js'

/** A header that stands more than once is joined by commas, which none of ours allows; absent is null. */
export interface RequestHead {
  readonly method: string
  readonly path: string
  readonly contentType: string | null
  readonly contentEncoding: string | null
  readonly idempotencyKey: string | null
  /** Declared length of the body in bytes; null where none is declared. */
  readonly contentLengthBytes: number | null
  /**
   * Why nobody can be sure where the body ends; null: it is plain. What follows such a request on its connection
   * could be a part of it, or a request that somebody hid in it.
   */
  readonly framingFault: string | null
  /** The client ends the connection after this request. */
  readonly wantsClose: boolean
}

/** RFC 9110: digits alone. 15 of them are more than any body has, and are exact as a number. */
const LENGTH = /^[0-9]{1,15}$/
const CLOSE = /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i

/** Valid only inside the request handler, as `request` is. */
export function readHead(request: HttpRequest): RequestHead {
  let contentType: string | null = null
  let contentEncoding: string | null = null
  let idempotencyKey: string | null = null
  let contentLengthBytes: number | null = null
  let framingFault: string | null = null
  let isChunked = false
  let wantsClose = false
  request.forEach((name, value) => {
    switch (name) {
      case 'content-type':
        contentType = contentType === null ? value : `${contentType},${value}`
        break
      case 'content-encoding':
        contentEncoding = contentEncoding === null ? value : `${contentEncoding},${value}`
        break
      case 'idempotency-key':
        idempotencyKey = idempotencyKey === null ? value : `${idempotencyKey},${value}`
        break
      case 'content-length':
        if (contentLengthBytes !== null) framingFault = 'Content-Length: must appear once'
        else if (!LENGTH.test(value)) framingFault = 'Content-Length: must be a number of bytes'
        contentLengthBytes = Number(value)
        break
      case 'transfer-encoding':
        if (isChunked || value.toLowerCase() !== 'chunked') framingFault = 'Transfer-Encoding: must be chunked'
        isChunked = true
        break
      case 'connection':
        wantsClose ||= wantsToClose(value)
        break
      case 'trailer':
        // The library takes trailers for the next request's head.
        framingFault = 'Trailer: not supported'
        break
    }
  })
  if (isChunked && contentLengthBytes !== null) {
    framingFault ??= 'Content-Length: must not appear with Transfer-Encoding'
  }
  return {
    method: request.getCaseSensitiveMethod(),
    path: request.getUrl(),
    contentType,
    contentEncoding,
    idempotencyKey,
    contentLengthBytes,
    framingFault,
    wantsClose,
  }
}

/** `connection`: the header's value. */
export function wantsToClose(connection: string): boolean {
  return CLOSE.test(connection)
}

const JSON_TYPE = /^application\/json[ \t]*(?:;|$)/i
const PARAMETER = /;[ \t]*(?:([!#$%&'*+.^_`|~0-9a-z-]+)=([!#$%&'*+.^_`|~0-9a-z-]+|"(?:[^"\\]|\\.)*")?)?[ \t]*/giy

/** JSON in UTF-8: any letter case, any parameters, but no charset other than utf-8. */
export function isJsonMediaType(contentType: string | null): boolean {
  if (contentType === 'application/json') return true
  if (contentType === null || !JSON_TYPE.test(contentType)) return false
  PARAMETER.lastIndex = contentType.search(/;|$/)
  while (PARAMETER.lastIndex < contentType.length) {
    const parameter = PARAMETER.exec(contentType)
    if (parameter === null) return false
    const value = parameter[2]?.replaceAll('"', '').toLowerCase()
    if (parameter[1]?.toLowerCase() === 'charset' && value !== 'utf-8') return false
  }
  return true
}

export type ContentEncoding = 'identity' | 'gzip' | 'deflate' | 'br'

/** The one encoding of a body; null where we do not know it. */
export function contentEncodingOf(header: string | null): ContentEncoding | null {
  if (header === null) return 'identity'
  const name = header.toLowerCase()
  switch (name) {
    case 'identity':
    case 'gzip':
    case 'deflate':
    case 'br':
      return name
    default:
      return null
  }
}
