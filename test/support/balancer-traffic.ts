// Clients of a balancer that keep their connections and are silent for a while between requests: small and large
// bodies, with and without a key, heads whole and in pieces.

import { randomUUID } from 'node:crypto'
import { type Answer, batch, bodyOfSize } from './client.ts'
import { head, openRaw, type RawConnection } from './raw-http.ts'
import { sleep } from './service.ts'

const LARGE_BYTES = 60_000
const LARGEST_BYTES = 130_000
/** Longer than a balancer waits for both of its tries. */
const ANSWER_TIMEOUT_MS = 40_000
/** Between two pieces of a head, so that they leave as packets of their own. */
const PIECE_PAUSE_MS = 5

export interface Tally {
  /** The batch id of each 202. */
  readonly accepted: string[]
  /** Answers other than 202. */
  readonly other: Answer[]
  /** Requests whose connection ended without an answer. */
  lost: number
}

/**
 * One client for each list: it is silent for so long, sends a request on the connection that it keeps, is silent again.
 * Comes back when each request was answered or lost.
 */
export async function sendAfterSilences(
  port: number,
  appKey: string,
  silencesMs: readonly (readonly number[])[],
  tally: Tally = { accepted: [], other: [], lost: 0 },
): Promise<Tally> {
  const client = async (silences: readonly number[]): Promise<void> => {
    let connection: RawConnection | null = null
    for (const silenceMs of silences) {
      await sleep(silenceMs)
      connection = await sendOne(connection ?? (await openRaw(port)), appKey, tally)
    }
    connection?.close()
  }
  await Promise.all(silencesMs.map(client))
  return tally
}

/** The connection, if it can take another request. */
export async function sendOne(connection: RawConnection, appKey: string, tally: Tally): Promise<RawConnection | null> {
  const body = Math.random() < 0.15 ? bodyOfSize(appKey, randomBetween(LARGE_BYTES, LARGEST_BYTES)) : batch(appKey)
  const lines = ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`]
  if (Math.random() < 0.5) lines.push(`Idempotency-Key: ${randomUUID()}`)
  const whole = head(lines) + body
  let from = 0
  if (Math.random() < 0.3) {
    for (const until of [randomBetween(1, 40), randomBetween(41, 100)]) {
      connection.write(whole.slice(from, until))
      from = until
      await sleep(PIECE_PAUSE_MS)
    }
  }
  connection.write(whole.slice(from))
  const answer = await connection.readAnswer({ timeoutMs: ANSWER_TIMEOUT_MS })
  if (answer === null) tally.lost += 1
  else if (answer.status === 202) tally.accepted.push(String(answer.headers['x-batch-id']))
  else tally.other.push(answer)
  if (answer !== null && answer.headers['connection'] !== 'close') return connection
  connection.close()
  return null
}

function randomBetween(least: number, most: number): number {
  return least + Math.floor(Math.random() * (most - least + 1))
}
