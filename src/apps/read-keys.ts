// Keys with which an app's own developers read its figures. A record holds a hash of each, by which it is found, and the
// public half of a pair made from it, by which a session is known that was opened with it: neither opens anything.

import { createHash, createPrivateKey, createPublicKey, type KeyObject, randomBytes, sign, verify } from 'node:crypto'

/** 160 bits. */
const KEY_BYTES = 20
const KEY = /^rk_[0-9a-f]{40}$/
/** What stands before the 32 bytes of an Ed25519 key in its DER form (RFC 8410). */
const PRIVATE_HEAD = Buffer.from('302e020100300506032b657004220420', 'hex')
const PUBLIC_HEAD = Buffer.from('302a300506032b6570032100', 'hex')

/** Of an app. */
export const MAX_READ_KEYS = 8

/** What a record keeps of a key. */
export interface ReadKeySecrets {
  readonly hash: string
  readonly session_key: string
}

export function freshReadKey(): string {
  return `rk_${randomBytes(KEY_BYTES).toString('hex')}`
}

/** null: it cannot be one. */
export function hashOfReadKey(key: string): string | null {
  return KEY.test(key) ? createHash('sha256').update(key).digest('base64url') : null
}

export function secretsOf(key: string): ReadKeySecrets {
  const session = createPublicKey(privateKeyOf(key)).export({ type: 'spki', format: 'der' })
  const hash = hashOfReadKey(key)
  if (hash === null) throw new Error('not a read key')
  return { hash, session_key: session.subarray(PUBLIC_HEAD.length).toString('base64url') }
}

/** Only who has the key can sign. */
export function signWith(key: string, text: string): string {
  return sign(null, Buffer.from(text), privateKeyOf(key)).toString('base64url')
}

export function isSignedWith(sessionKey: string, text: string, signature: string): boolean {
  const der = Buffer.concat([PUBLIC_HEAD, Buffer.from(sessionKey, 'base64url')])
  const key = createPublicKey({ key: der, format: 'der', type: 'spki' })
  return verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64url'))
}

function privateKeyOf(key: string): KeyObject {
  const seed = createHash('sha256').update(`sluice session ${key}`).digest()
  return createPrivateKey({ key: Buffer.concat([PRIVATE_HEAD, seed]), format: 'der', type: 'pkcs8' })
}
