// Receives what webhooks.js sends: believes what is signed with its secret, and takes each id once (docs/webhooks.md).
// WEBHOOK_SECRETS=whsec_… node examples/receiver.js: prints each alert as a line of JSON.

import { parseArgs } from 'node:util'
import { limitedLog } from './shared/limited-log.js'
import { serve } from './shared/serve.js'
import { faultOf, secretBytes } from './shared/webhooks/signature.js'

const MAX_BODY_BYTES = 65_536
const MAX_GATHERED_BYTES = 2_097_152
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

const log = limitedLog()

serve({
  name: 'receiver',
  host: values.host,
  port: Number(values.port),
  maxConnections: MAX_CONNECTIONS,
  maxBodyBytes: MAX_BODY_BYTES,
  maxGatheredBytes: MAX_GATHERED_BYTES,
  answer: async (request, readBody) => ({
    status: request.method === 'POST' ? await take(request.headers, readBody) : 405,
  }),
  onFault: (error) => log('bug', `receiver: bug, this message got 500: ${Object(error).stack ?? error}`),
})
/**
 * The status to answer.
 *
 * @param {import('node:http').IncomingHttpHeaders} headers
 * @param {() => Promise<Buffer | null>} readBody
 */
async function take(headers, readBody) {
  const body = await readBody()
  if (body === null) return 413
  const fault = faultOf(headers, body, secrets, Date.now() / 1000)
  if (fault !== null) {
    log('refused', `receiver: a message was refused: ${fault}`)
    return 401
  }
  const id = String(headers['webhook-id'])
  if (seen.has(id)) return 204
  try {
    console.log(JSON.stringify({ id, ...JSON.parse(body.toString()) }))
  } catch {
    return 400
  }
  // Noted after it was handled: what fails in between comes again.
  seen.add(id)
  for (const oldest of seen) {
    if (seen.size <= MAX_IDS) break
    seen.delete(oldest)
  }
  return 204
}
