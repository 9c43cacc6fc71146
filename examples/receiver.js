// Receives what webhooks.js sends: believes what is signed with its secret, and takes each id once (docs/webhooks.md).
// WEBHOOK_SECRETS=whsec_… node examples/receiver.js: prints each alert as a line of JSON.

import { createServer } from 'node:http'
import { parseArgs } from 'node:util'
import { faultOf, secretBytes } from './shared/webhooks/signature.js'

const MAX_BODY_BYTES = 65_536
const REQUEST_TIMEOUT_MS = 10_000
const MAX_CONNECTIONS = 100
/** Where it matters for longer, keep the ids in the database that keeps what you make of them. */
const MAX_IDS = 10_000

const { values } = parseArgs({
  options: { host: { type: 'string', default: '127.0.0.1' }, port: { type: 'string', default: '8082' } },
})
/** The new one and the old one, with a comma, while they change. */
const secrets = (process.env.WEBHOOK_SECRETS ?? '').split(',')
if (!secrets.every((secret) => secretBytes(secret) !== null)) {
  console.error('receiver: set WEBHOOK_SECRETS to whsec_ and 24 to 64 bytes in base64')
  process.exit(1)
}
/** @type {Set<string>} */
const seen = new Set()

const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, async (request, response) => {
  const status = await take(request).catch(() => 400)
  if (!request.complete) response.setHeader('Connection', 'close')
  response.writeHead(status)
  response.end()
})
server.maxConnections = MAX_CONNECTIONS
server.listen(Number(values.port), values.host, () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  console.error(`receiver: listening on http://${values.host}:${port}`)
})
for (const end of ['SIGINT', 'SIGTERM']) process.on(end, () => server.close())

/** The status to answer. @param {import('node:http').IncomingMessage} request */
async function take(request) {
  if (request.method !== 'POST') return 405
  const pieces = []
  let bytes = 0
  for await (const piece of request.iterator({ destroyOnReturn: false })) {
    bytes += piece.length
    if (bytes > MAX_BODY_BYTES) return 413
    pieces.push(piece)
  }
  const body = Buffer.concat(pieces)
  const fault = faultOf(request.headers, body, secrets, Date.now() / 1000)
  if (fault !== null) {
    console.error(`receiver: a message was refused: ${fault}`)
    return 401
  }
  const id = String(request.headers['webhook-id'])
  if (seen.has(id)) return 204
  console.log(JSON.stringify({ id, ...JSON.parse(body.toString()) }))
  // Noted after it was handled: what fails in between comes again.
  seen.add(id)
  for (const oldest of seen) {
    if (seen.size <= MAX_IDS) break
    seen.delete(oldest)
  }
  return 204
}
