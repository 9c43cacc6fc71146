// One attempt to deliver one message: one connection to an address that was checked, no redirect, bounded in time and bytes.

import { request as plainRequest } from 'node:http'
import { request as tlsRequest } from 'node:https'
import { isIP } from 'node:net'
import { addressesOf } from './address.js'
import { lookUp } from './lookup.js'
import { signedHeaders } from './signature.js'

const ATTEMPT_TIMEOUT_MS = 15_000
const MAX_RETRY_AFTER_SECONDS = 86_400
/** Before the answer, a server may send any number of heads that begin with 1: each is read. */
const MAX_EARLY_HEADS = 10

/**
 * @typedef {{ kind: 'taken' } | { kind: 'gone' } | { kind: 'failed', why: string, retryAfterMs: number }} Outcome
 *
 * @typedef {object} Attempt
 * @property {string} url
 * @property {readonly string[]} secrets
 * @property {string} id
 * @property {string} body
 * @property {number} number       How many there were before.
 * @property {number} nowMs
 * @property {boolean} allowsLocal
 * @property {AbortSignal} signal
 * @property {(hostname: string, signal: AbortSignal) => Promise<readonly string[]>} [lookup]
 * @property {number} [timeoutMs]
 */

/** @param {Attempt} attempt @returns {Promise<Outcome>} */
export async function deliver(attempt) {
  const timeout = new AbortController()
  const timer = setTimeout(() => timeout.abort(), attempt.timeoutMs ?? ATTEMPT_TIMEOUT_MS)
  try {
    const signal = AbortSignal.any([attempt.signal, timeout.signal])
    const { status, retryAfter } = await Promise.race([send(attempt, signal), rejected(signal)])
    if (status >= 200 && status < 300) return { kind: 'taken' }
    if (status === 410) return { kind: 'gone' }
    const seconds = /^\d{1,9}$/.test(retryAfter) ? Math.min(Number(retryAfter), MAX_RETRY_AFTER_SECONDS) : 0
    return { kind: 'failed', why: `it answered ${status}`, retryAfterMs: seconds * 1000 }
  } catch (error) {
    const why = timeout.signal.aborted ? 'it did not answer in time' : String(Object(error).message ?? error)
    return { kind: 'failed', why, retryAfterMs: 0 }
  } finally {
    clearTimeout(timer)
  }
}

/** @param {Attempt} attempt @param {AbortSignal} signal @returns {Promise<{ status: number, retryAfter: string }>} */
async function send({ url, secrets, id, body, number, nowMs, allowsLocal, lookup = lookUp }, signal) {
  const { protocol, hostname, host, port, pathname, search } = new URL(url)
  const addresses = await addressesOf(hostname, (name) => lookup(name, signal), allowsLocal)
  signal.throwIfAborted()
  const options = {
    // The address itself: no name is looked up again. The next attempt takes the next one.
    host: addresses[number % addresses.length],
    // The certificate is that of the name.
    servername: isIP(hostname.replace(/^\[(.*)\]$/, '$1')) > 0 ? '' : hostname,
    port: port === '' ? undefined : Number(port),
    path: `${pathname}${search}`,
    method: 'POST',
    agent: false,
    signal,
    headers: {
      host,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'user-agent': 'sluice-webhooks',
      ...signedHeaders({ id, seconds: Math.floor(nowMs / 1000), body, secrets }),
    },
  }
  return await new Promise((resolve, reject) => {
    const request = (protocol === 'https:' ? tlsRequest : plainRequest)(options, (response) => {
      const { statusCode: status = 0, headers } = response
      resolve({ status, retryAfter: headers['retry-after'] ?? '' })
      // Its body is not read: the status says all.
      response.on('error', () => {})
      request.destroy()
    })
    let earlyHeads = 0
    request.on('information', () => {
      if (++earlyHeads > MAX_EARLY_HEADS) request.destroy(new Error('it did not come to an answer'))
    })
    request.on('error', reject)
    request.end(body)
  })
}

/** For a lookup that does not end. @param {AbortSignal} signal @returns {Promise<never>} */
function rejected(signal) {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
