// Ends the connection to a server that does not keep to the protocol. The client itself would print what it cannot read, whole,
// keep whatever comes, and answer any number of pings.

import { DataBuffer, MsgHdrsImpl, Parser, ProtocolHandler } from '@nats-io/transport-node'
import { mustHaveMethods } from '../lib/client-library.ts'
import { errorMessage } from '../lib/errors.ts'

/** Of a line of the protocol, such as INFO in a large cluster. */
export const MAX_LINE_BYTES = 64 * 1024
/** What a server adds to a message that it hands out. */
const ADDED_BYTES = 64 * 1024
/** A server pings every two minutes, and a few times more when a connection begins. */
const MAX_PINGS_A_SECOND = 100
const MAX_QUOTED_CHARACTERS = 200

/** Of a text that comes from a server, so much as a log line may hold. */
export function quoted(text: string): string {
  return text.length <= MAX_QUOTED_CHARACTERS ? text : `${text.slice(0, MAX_QUOTED_CHARACTERS)}…`
}

let isGuarded = false

/** Guards every connection that the client makes from now on, from its first byte. Throws a StartError where the client is of another kind. */
export function guardConnections(): void {
  if (isGuarded) return
  // The client calls it before it opens a socket.
  const client = ProtocolHandler.prototype as unknown as { prepare: (this: ProtocolHandler) => Promise<unknown> }
  mustHaveMethods('@nats-io/transport-node', [
    [ProtocolHandler.prototype, 'prepare', 'processPing'],
    [Parser.prototype, 'parse'],
    [MsgHdrsImpl, 'decode'],
    [DataBuffer.prototype, 'fill', 'drain', 'length'],
  ])
  isGuarded = true
  const { prepare } = client
  client.prepare = function () {
    const handshake = prepare.call(this)
    guard(this)
    return handshake
  }
  // A server passes on headers that the client does not read, and they would end whatever reads a message: it has none.
  const decode = MsgHdrsImpl.decode.bind(MsgHdrsImpl)
  MsgHdrsImpl.decode = (bytes) => {
    try {
      return decode(bytes)
    } catch {
      return new MsgHdrsImpl()
    }
  }
}

function guard(protocol: ProtocolHandler): void {
  const { parser } = protocol
  const parse = parser.parse.bind(parser)
  const answerPing = protocol.processPing.bind(protocol)
  let [sinceMs, pings, isEnded] = [performance.now(), 0, false]

  protocol.processPing = () => {
    const atMs = performance.now()
    if (atMs - sinceMs >= 1000) [sinceMs, pings] = [atMs, 0]
    pings += 1
    if (pings > MAX_PINGS_A_SECOND) throw new Error(`more than ${MAX_PINGS_A_SECOND} pings in a second`)
    answerPing()
  }
  parser.parse = (bytes) => {
    if (isEnded) return
    try {
      parse(bytes)
      const { max_payload: maxPayloadBytes = 0 } = protocol.info ?? {}
      // With a message under way, what it is said to have.
      if (parser.msgBuf !== undefined && parser.ma.size > maxPayloadBytes + ADDED_BYTES)
        throw new Error(`a message of ${parser.ma.size} bytes, with a max_payload of ${maxPayloadBytes}`)
      if ((parser.argBuf?.length ?? 0) > MAX_LINE_BYTES) throw new Error('a line without an end')
    } catch (error) {
      isEnded = true
      void protocol.close(new Error(`the server does not keep to the protocol of NATS: ${quoted(errorMessage(error))}`))
    }
  }
}
