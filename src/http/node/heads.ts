// Which heads the engine on Node's own server refuses, so that it takes and refuses what uWebSockets.js does: Node's parser
// takes more than that of some heads, and does not pass on others of which sluice has something to say.

import type { IncomingMessage } from 'node:http'
import { EVENTS_PATH } from '../../contract/bounds.ts'
import type { Unreadable } from '../wire.ts'

/** As of uWebSockets.js: of the request line and all header lines, with their ends and the blank line. */
export const MAX_HEAD_BYTES = 4096
const MAX_HEADER_LINES = 98
/** A method or a path that Node does not take. None for events is asked for here: nothing would read its body. */
const REQUEST_LINE = new RegExp(`^(?!POST ${EVENTS_PATH}[? ])([!-~]+) (/[!-~\\x80-\\xff]*) HTTP/1\\.1\\r\\n`)
const LINE_FEED_ALONE = /^[!-~]+ [!-~]+ HTTP\/1\.1\n/
const TRANSFER_ENCODING = /^transfer-encoding:/im
const ORIGIN = /^origin:[ \t]*(.*?)[ \t]*\r$/gim

/** What is known of a head that Node did not pass on, for the answer. */
export interface UnreadHead {
  readonly method: string
  readonly path: string
  readonly headers: Headers
}

type Headers = readonly (readonly [name: string, value: string])[]

/** null: it is taken. */
export function refusalOf({ httpVersion, method = '', url = '', rawHeaders }: IncomingMessage): Unreadable | null {
  if (httpVersion !== '1.1' || !url.startsWith('/')) return 'not_http'
  let bytes = method.length + url.length + 1 + ' HTTP/1.1\r\n\r\n'.length
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    bytes += name.length + rawHeaders[at + 1].length + ': \r\n'.length
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1
    // Node takes it for none, and what follows for the next request.
    else if (rawHeaders[at + 1] === '' && name.toLowerCase() === 'transfer-encoding') return 'malformed'
  }
  if (bytes > MAX_HEAD_BYTES || rawHeaders.length > 2 * MAX_HEADER_LINES) return 'head_too_large'
  return hosts === 1 ? null : 'malformed'
}

/** Of an error of Node's parser. `packet`: what it read last. null: the connection ends without an answer. */
export function unreadOf(code: string, packet: string): UnreadHead | Unreadable | null {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return 'head_too_large'
    case 'HPE_INVALID_CONTENT_LENGTH':
      return framing(packet, ['content-length', ''])
    case 'HPE_INVALID_TRANSFER_ENCODING':
      return framing(packet, ['transfer-encoding', ''])
    case 'HPE_UNEXPECTED_CONTENT_LENGTH': {
      const isOfChunks = TRANSFER_ENCODING.test(packet)
      return framing(
        packet,
        ['content-length', '0'],
        isOfChunks ? ['transfer-encoding', 'chunked'] : ['content-length', '0'],
      )
    }
    case 'HPE_INVALID_METHOD':
    case 'HPE_INVALID_URL': {
      const [, method, target] = REQUEST_LINE.exec(packet) ?? []
      return method === undefined ? 'not_http' : { method, path: target.split('?', 1)[0], headers: originsIn(packet) }
    }
    case 'HPE_INVALID_VERSION':
    case 'HPE_INVALID_CONSTANT':
    case 'HPE_PAUSED_H2_UPGRADE':
      return 'not_http'
    case 'HPE_CR_EXPECTED':
      return LINE_FEED_ALONE.test(packet) ? 'not_http' : 'malformed'
    case 'HPE_INVALID_EOF_STATE':
      return null
    default:
      return code.startsWith('HPE_') ? 'malformed' : null
  }
}

/** With headers that leave the end of the body in doubt for the same reason, which the answer names. */
function framing(packet: string, ...headers: Headers): UnreadHead {
  return { method: 'POST', path: '', headers: [...headers, ...originsIn(packet)] }
}

/** So that the web page that sends can read the answer. */
function originsIn(packet: string): Headers {
  return Array.from(packet.matchAll(ORIGIN), ([, origin]) => ['origin', origin])
}
