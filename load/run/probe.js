// @ts-check
// Before a load on a service that is not ours: is it there, and does it know the app? What else it answers is for the
// script to judge.

import { EVENTS_PATH } from '../k6/shared/settings.js'

const TIMEOUT_MS = 5000

/** An app that may not send at all. */
const STRANGER = new Set([401, 402])

/**
 * Sends each address a batch that breaks the schema, so that it costs the app nothing and is refused only after the app
 * was looked up. Throws where nobody answers, or not to this app.
 * @param {string} baseUrls with commas between them @param {string} appKey
 */
export async function probe(baseUrls, appKey) {
  for (const baseUrl of baseUrls.split(',').map((text) => text.trim().replace(/\/+$/, ''))) {
    const answer = await send(`${baseUrl}${EVENTS_PATH}`, appKey)
    if (answer !== null && STRANGER.has(answer.status))
      throw new Error(`${baseUrl} answers a batch of APP_KEY with ${describe(answer)}`)
  }
}

/** null: no answer in time. @param {string} url @param {string} appKey */
async function send(url, appKey) {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ app_key: appKey, sdk_version: 0, events: [] }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    return { status: response.status, body: await response.text() }
  } catch (error) {
    if (error instanceof Error && error.name === 'TimeoutError') return null
    // fetch says only that it failed; what failed is in the cause.
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
    const reason = cause instanceof Error ? ('code' in cause ? String(cause.code) : cause.message) : String(cause)
    throw new Error(`no service at ${new URL(url).origin}: ${reason}`, { cause: error })
  }
}

/** @param {{ status: number, body: string }} answer */
function describe({ status, body }) {
  const code = /"error":"([a-z_]{1,40})"/.exec(body)?.[1]
  return code === undefined ? String(status) : `${status} ${code}`
}
