// Reads the queue that the settings name, the journal's files or the stream in NATS: looks for one batch, or goes back
// from the newest record.

import type { NatsAccess } from '../../nats/address.ts'
import { findInJournal } from '../journal/journal-search.ts'
import { newestInJournal } from '../journal/newest-records.ts'
import type { Finding, SearchOptions } from './finding.ts'
import type { Question } from './question.ts'

export interface QueuePlace {
  readonly dataDirectory: string
  /** null: the queue is the journal. */
  readonly nats: NatsAccess | null
  readonly partitions: number
}

/**
 * In the stream over a connection of its own, since a search reads so much that everything else would wait behind it.
 * Rejects where the queue cannot be read.
 */
export async function findInQueue(
  { dataDirectory, nats, partitions }: QueuePlace,
  question: Question,
  options: SearchOptions,
): Promise<Finding> {
  if (nats === null) return await findInJournal(dataDirectory, question, options)
  const { connectNats } = await import('../../nats/connection.ts')
  const { findInStream } = await import('../stream/read/stream-search.ts')
  const connection = await connectNats(nats)
  try {
    return await findInStream(connection, question, { ...options, partitions })
  } finally {
    await connection.close()
  }
}

/** Yields lines, newest first, each list of them until the next. Throws where the queue cannot be read. */
export async function* newestRecords({ dataDirectory, nats }: QueuePlace): AsyncGenerator<readonly Buffer[]> {
  if (nats === null) return yield* newestInJournal(dataDirectory)
  const { connectNats } = await import('../../nats/connection.ts')
  const { newestInStream } = await import('../stream/read/newest-messages.ts')
  const connection = await connectNats(nats)
  try {
    yield* newestInStream(connection)
  } finally {
    await connection.close()
  }
}
