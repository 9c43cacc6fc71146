// Signatures as Standard Webhooks has them (standardwebhooks.com): HMAC with SHA-256 over id, time and body.

import { createHmac, timingSafeEqual } from 'node:crypto'

const SECRET = /^whsec_([A-Za-z0-9+/]+={0,2})$/
const MIN_SECRET_BYTES = 24
const MAX_SECRET_BYTES = 64
/** A message that is older, or further ahead, may be one that somebody kept and sends again. */
const MAX_SKEW_SECONDS = 300
const MAX_SIGNATURES = 10

/** The bytes of a secret; null: it is none. @param {unknown} secret */
export function secretBytes(secret) {
  const bytes = Buffer.from(SECRET.exec(String(secret))?.[1] ?? '', 'base64')
  return bytes.length >= MIN_SECRET_BYTES && bytes.length <= MAX_SECRET_BYTES ? bytes : null
}

/**
 * One signature for each secret, so that a receiver that knows either of two takes it.
 *
 * @param {{ id: string, seconds: number, body: string, secrets: readonly string[] }} message
 * @returns {Record<string, string>}
 */
export function signedHeaders({ id, seconds, body, secrets }) {
  return {
    'webhook-id': id,
    'webhook-timestamp': String(seconds),
    'webhook-signature': secrets.map((secret) => `v1,${sign(secret, `${id}.${seconds}.${body}`)}`).join(' '),
  }
}

/**
 * Why a message is not to be believed; null: it is.
 *
 * @param {Record<string, string | string[] | undefined>} headers
 * @param {Buffer} body as it came: one that was parsed and written again is another one
 * @param {readonly string[]} secrets
 * @param {number} nowSeconds
 */
export function faultOf(headers, body, secrets, nowSeconds) {
  const [id, time, given] = ['id', 'timestamp', 'signature'].map((name) => headers[`webhook-${name}`])
  if (typeof id !== 'string' || typeof time !== 'string' || typeof given !== 'string') return 'it is not signed'
  if (!/^\d{1,12}$/.test(time)) return 'its time is no time'
  if (Math.abs(nowSeconds - Number(time)) > MAX_SKEW_SECONDS) return 'its time is more than five minutes from now'
  const content = Buffer.concat([Buffer.from(`${id}.${time}.`), body])
  const wanted = secrets.map((secret) => Buffer.from(sign(secret, content)))
  const isRight = given
    .split(' ', MAX_SIGNATURES)
    .filter((each) => each.startsWith('v1,'))
    .map((each) => Buffer.from(each.slice(3)))
    .some((bytes) => wanted.some((other) => other.length === bytes.length && timingSafeEqual(other, bytes)))
  return isRight ? null : 'its signature is not of our secret'
}

/** @param {string} secret @param {string | Buffer} content */
function sign(secret, content) {
  const bytes = secretBytes(secret)
  if (bytes === null) throw new Error('a secret is whsec_ and 24 to 64 bytes in base64')
  return createHmac('sha256', bytes).update(content).digest('base64')
}
