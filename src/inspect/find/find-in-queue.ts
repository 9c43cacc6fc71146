// Reads the queue that the settings name, the journal's files, or the stream in NATS and this node's spool: looks for one batch, or goes back
// from the newest record.

import { errorMessage } from '../../lib/errors.ts'
import type { NatsAccess } from '../../nats/address.ts'
import type { Finding, Found, SearchOptions } from '../../queue/find/finding.ts'
import type { Question } from '../../queue/find/question.ts'
import { findInJournal } from '../../queue/journal/journal-search.ts'
import { newestInJournal } from '../../queue/journal/newest-records.ts'
import { findInSpool } from '../../queue/spool/spool-search.ts'
import { joined, newestInSpool } from './newest-spooled.ts'

export interface QueuePlace {
  readonly dataDirectory: string
  /** null: the queue is the journal. */
  readonly nats: NatsAccess | null
  readonly partitions: number
  /** null: this node has none. */
  readonly spool: { readonly directory: string } | null
}

/**
 * In the stream over a connection of its own, since a search reads so much that everything else would wait behind it.
 * Rejects where the queue cannot be read.
 */
export async function findInQueue(
  { dataDirectory, nats, partitions, spool }: QueuePlace,
  question: Question,
  options: SearchOptions,
): Promise<Finding> {
  if (nats === null) return await findInJournal(dataDirectory, question, options)
  // First, so that a batch that is sent meanwhile is found in the stream, and one here while NATS is away.
  const spooled = spool === null ? null : await findSpooled(spool.directory, question, options)
  if (spooled !== null) return spooled
  const { connectNats } = await import('../../nats/connection.ts')
  const { findInStream } = await import('../../queue/stream/read/stream-search.ts')
  const connection = await connectNats(nats)
  try {
    return await findInStream(connection, question, { ...options, partitions })
  } finally {
    await connection.close()
  }
}

async function findSpooled(directory: string, question: Question, options: SearchOptions): Promise<Found | null> {
  try {
    return await findInSpool(directory, question, options)
  } catch (error) {
    options.onUnread?.(`the spool in ${directory} cannot be read: ${errorMessage(error)}`)
    return null
  }
}

/** Yields lines, newest first, each list of them until the next. Throws where the queue cannot be read, behind what is in the spool. */
export async function* newestRecords({ dataDirectory, nats, spool }: QueuePlace): AsyncGenerator<readonly Buffer[]> {
  if (nats === null) return yield* newestInJournal(dataDirectory)
  if (spool === null) return yield* newestOverNats(nats)
  yield* joined(newestInSpool(spool.directory), newestOverNats(nats))
}

async function* newestOverNats(nats: NatsAccess): AsyncGenerator<readonly Buffer[]> {
  const { connectNats } = await import('../../nats/connection.ts')
  const { newestInStream } = await import('../../queue/stream/read/newest-messages.ts')
  const connection = await connectNats(nats)
  try {
    yield* newestInStream(connection)
  } finally {
    await connection.close()
  }
}
