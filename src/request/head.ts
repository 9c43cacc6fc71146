// A request's head as the path of a request sees it: plain values.

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
