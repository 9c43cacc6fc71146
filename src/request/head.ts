// A request's head in plain values, and the rules for its headers.

/** The values of a repeated header are joined by commas, which no rule here accepts. An absent header is null. */
export interface RequestHead {
  readonly method: string
  readonly path: string
  readonly contentType: string | null
  readonly contentEncoding: string | null
  readonly idempotencyKey: string | null
  readonly traceparent: string | null
  /** The declared length of the body; null where none is declared. */
  readonly contentLengthBytes: number | null
  /**
   * Why the end of the body is ambiguous; null: it is not. The bytes after such a request could be part of its body, or
   * a smuggled request.
   */
  readonly framingFault: string | null
  /** The client asked to close the connection after this request. */
  readonly wantsClose: boolean
  /** Header lines of the answer for a web page of another origin; empty: no such page sends, or it is not allowed to. */
  readonly corsHeaders: string
  /** Of the web page that sends; null: no page sends. */
  readonly origin: string | null
  /** The origin of a web page that is not allowed to send; null: no such page sends, or it may. */
  readonly foreignOrigin: string | null
}

const JSON_TYPE = /^application\/json[ \t]*(?:;|$)/i
const PARAMETER = /;[ \t]*(?:([!#$%&'*+.^_`|~0-9a-z-]+)=([!#$%&'*+.^_`|~0-9a-z-]+|"(?:[^"\\]|\\.)*")?)?[ \t]*/giy

/** `utf8` is a label of UTF-8 too (WHATWG Encoding). */
const UTF8_LABELS = new Set<string | undefined>(['utf-8', 'utf8'])

/** What a media type is: JSON in UTF-8, in any letter case and with any parameters; JSON in another charset; or no JSON. */
export function jsonOf(contentType: string | null): 'utf-8' | 'other charset' | 'none' {
  if (contentType === 'application/json') return 'utf-8'
  if (contentType === null || !JSON_TYPE.test(contentType)) return 'none'
  PARAMETER.lastIndex = contentType.search(/;|$/)
  while (PARAMETER.lastIndex < contentType.length) {
    const parameter = PARAMETER.exec(contentType)
    if (parameter === null) return 'none'
    const value = parameter[2]?.replaceAll('"', '').toLowerCase()
    if (parameter[1]?.toLowerCase() === 'charset' && !UTF8_LABELS.has(value)) return 'other charset'
  }
  return 'utf-8'
}

/** What browsers give a string without a preflight, and a beacon can have no other. */
const TEXT_TYPE = /^text\/plain[ \t]*;[ \t]*charset=utf-8$/i

export function isTextMediaType(contentType: string | null): boolean {
  return contentType !== null && TEXT_TYPE.test(contentType)
}

export type ContentEncoding = 'identity' | 'gzip' | 'deflate' | 'br'

/** null: an unknown encoding. */
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

const TRACE_CHARACTERS = 55
/** Version, trace id, parent id and flags. Neither id may be all zeros. */
const TRACE = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/

/**
 * What is kept of a `traceparent` header (W3C Trace Context): the four fields that all versions share; null: malformed.
 * Version 00 has no more than these.
 */
export function traceOf(traceparent: string | null): string | null {
  if (traceparent === null || !TRACE.test(traceparent)) return null
  if (traceparent.startsWith('00') && traceparent.length > TRACE_CHARACTERS) return null
  return traceparent.slice(0, TRACE_CHARACTERS)
}
