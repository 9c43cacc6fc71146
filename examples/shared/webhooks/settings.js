// The endpoints, from a file that is read again when it changes: a new secret needs no restart.

import { readFileSync, statSync } from 'node:fs'
import { secretBytes } from './signature.js'

/** With one read key each look of each endpoint is one of its 60 requests a minute. */
const MAX_ENDPOINTS = 50
const MAX_SECRETS = 2

/**
 * @typedef {import('./follow.js').Endpoint} Endpoint
 *
 * @param {string} file @param {boolean} allowsLocal @param {(message: string) => void} log
 */
export function openSettings(file, allowsLocal, log) {
  let changed = changeOf(file)
  let endpoints = parseSettings(readFileSync(file, 'utf8'), allowsLocal)

  /** By URL. The last good ones, where the file is bad now. @returns {ReadonlyMap<string, Endpoint>} */
  return () => {
    const change = changeOf(file)
    if (change === changed) return endpoints
    changed = change
    try {
      endpoints = parseSettings(readFileSync(file, 'utf8'), allowsLocal)
      log(`${file} was read again: ${endpoints.size} endpoints`)
    } catch (error) {
      log(`${file} is not in force, what it had before is: ${Object(error).message}`)
    }
    return endpoints
  }
}

/** @param {string} file */
function changeOf(file) {
  const { mtimeMs, ino, size } = statSync(file, { throwIfNoEntry: false }) ?? { mtimeMs: 0, ino: 0, size: 0 }
  return `${mtimeMs} ${ino} ${size}`
}

/** An error says which member is wrong, and repeats no secret. @param {string} text @param {boolean} allowsLocal */
export function parseSettings(text, allowsLocal) {
  let list
  try {
    list = Object(JSON.parse(text)).endpoints
  } catch {
    throw new Error('it is not JSON')
  }
  if (!Array.isArray(list) || list.length > MAX_ENDPOINTS)
    throw new Error(`endpoints: a list of at most ${MAX_ENDPOINTS}`)
  /** @type {Map<string, Endpoint>} */
  const endpoints = new Map()
  for (const [index, each] of list.entries()) {
    const { url, secrets, app = null } = Object(each)
    const fault = faultIn(url, secrets, app, allowsLocal)
    if (fault !== null) throw new Error(`endpoints[${index}].${fault}`)
    if (endpoints.has(new URL(url).href)) throw new Error(`endpoints[${index}].url: it is there twice`)
    endpoints.set(new URL(url).href, { url: new URL(url).href, secrets, app })
  }
  return endpoints
}

/** @param {unknown} url @param {unknown} secrets @param {unknown} app @param {boolean} allowsLocal */
function faultIn(url, secrets, app, allowsLocal) {
  const parsed = typeof url === 'string' && URL.canParse(url) ? new URL(url) : null
  if (parsed?.protocol !== 'https:' && !(allowsLocal && parsed?.protocol === 'http:')) return 'url: must be https://…'
  if (parsed.username !== '' || parsed.password !== '') return 'url: must have no password'
  if (!Array.isArray(secrets) || secrets.length === 0 || secrets.length > MAX_SECRETS) return 'secrets: one, or two'
  if (!secrets.every((secret) => typeof secret === 'string' && secretBytes(secret) !== null))
    return 'secrets: each is whsec_ and 24 to 64 bytes in base64'
  return app === null || typeof app === 'string' ? null : 'app: must be an app_id'
}
