// Reads a range of the stream by sequence, several messages asked for at a time, and leaves no state in the server.

import type { NatsConnection } from '@nats-io/transport-node'
import { describeStream } from '../stream.ts'
import { getFromLeader, getFromReplica, type StoredMessage } from './stream-message.ts'

/** Messages asked for ahead, and so held here: a few MB of ordinary ones. */
const MAX_AHEAD = 32
const GET_TIMEOUT_MS = 5000
const EVERY_SUBJECT = '>'

export interface StreamRange {
  /** The first sequence to read. */
  readonly from: number
  /** The last one. */
  readonly until: number
  /** Only messages of this subject. */
  readonly subject?: string
  /** What the stream's facts say; undefined: it is asked. */
  readonly allowsDirect?: boolean
}

/** Yields what is there, in order; what was deleted is passed over. Throws where NATS fails to answer. */
export async function* readRange(connection: NatsConnection, range: StreamRange): AsyncGenerator<StoredMessage> {
  const get = (range.allowsDirect ?? (await allowsDirect(connection))) ? getFromReplica : getFromLeader
  if (range.subject === undefined) yield* readEvery(connection, get, range)
  else yield* readSubject(connection, get, range, range.subject)
}

/** Each message is asked for by its own sequence, so that none has to be known before the next is asked for. */
async function* readEvery(
  connection: NatsConnection,
  get: typeof getFromLeader,
  { from, until }: StreamRange,
): AsyncGenerator<StoredMessage> {
  let asked = from
  let ahead: { readonly sequence: number; readonly answer: Promise<StoredMessage | null> }[] = []
  for (;;) {
    while (ahead.length < MAX_AHEAD && asked <= until) {
      const answer = get(connection, { sequence: asked }, GET_TIMEOUT_MS)
      // It is awaited in its turn; until then, or where the reading ends before, its failure is nobody's.
      answer.catch(() => {})
      ahead.push({ sequence: asked, answer })
      asked += 1
    }
    const next = ahead.shift()
    if (next === undefined) return
    const answer = await next.answer
    if (answer !== null) {
      yield answer
      continue
    }
    // It was deleted, or this replica lags: the leader knows, and where the gap ends.
    const found = await getFromLeader(connection, { sequence: next.sequence, subject: EVERY_SUBJECT }, GET_TIMEOUT_MS)
    if (found === null || found.sequence > until) return
    yield found
    ahead = ahead.filter(({ sequence }) => sequence > found.sequence)
    asked = Math.max(asked, found.sequence + 1)
  }
}

/** The server looks for the next one of the subject, from where the last one was. */
async function* readSubject(
  connection: NatsConnection,
  get: typeof getFromLeader,
  { from, until }: StreamRange,
  subject: string,
): AsyncGenerator<StoredMessage> {
  let sequence = from
  while (sequence <= until) {
    const query = { sequence, subject }
    // A replica applies what the leader stored in order: where it lags it knows of none, and not of a later one.
    const found =
      (await get(connection, query, GET_TIMEOUT_MS)) ?? (await getFromLeader(connection, query, GET_TIMEOUT_MS))
    if (found === null || found.sequence > until) return
    yield found
    sequence = found.sequence + 1
  }
}

async function allowsDirect(connection: NatsConnection): Promise<boolean> {
  const report = await describeStream(connection)
  if (report.kind === 'unreadable') throw new Error(report.reason)
  return report.kind === 'present' && report.facts.allowsDirect
}
