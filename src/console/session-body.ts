// What the console and the portal share of how a session begins and ends, and of a batch's path.

import { type Answer, answered } from '../http/admin-routes.ts'

export const MAX_SESSION_BYTES = 4096
export const NO_TOKEN = 'the body must be {"token": "…"}'
const BATCH_PATH = /^\/api\/batches\/([^/]{1,100})$/

/** Of the body that opens a session, `{"token": "…"}`; null: it is none. */
export function tokenIn(body: Buffer): string | null {
  try {
    const value = JSON.parse(body.toString()) as { token?: unknown } | null
    return typeof value?.token === 'string' ? value.token : null
  } catch {
    return null
  }
}

export function noContent(headers: Answer['headers']): Answer {
  return answered(204, 'text/plain', '', headers)
}

/** undefined: the path is not that of a batch. */
export function batchIdIn(path: string): string | undefined {
  return BATCH_PATH.exec(path)?.[1]
}
