// The lines of the queue as they become durable, whichever holds it: the journal's files, or the stream in NATS.

import { existsSync } from 'node:fs'
import { recordsOf } from '../../contract/record/record-lines.ts'
import { StartError, throwStartError } from '../../lib/errors.ts'
import type { NatsAccess } from '../../nats/address.ts'
import { connectNats, describeFault } from '../../nats/connection.ts'
import { EVENTS_STREAM } from '../../nats/store-names.ts'
import { damageText } from '../../queue/journal/damage-text.ts'
import { readLines } from '../../queue/journal/journal-reader.ts'
import { journalDirectory } from '../../queue/journal/segments.ts'
import { readStream } from '../../queue/stream/read/stream-reader.ts'
import { describeStream } from '../../queue/stream/stream.ts'
import { subjectOfApp } from '../../queue/stream/stream-subject.ts'
import type { QueuePlace } from './find-in-queue.ts'

export interface ReadQueueOptions {
  /** From the oldest record that is kept; otherwise from the end as it is now. */
  readonly fromStart: boolean
  /** Goes on as the queue grows; one that does not exist yet is waited for. */
  readonly follow: boolean
  /** Records of other apps may be left out, where that is cheap; undefined: all are wanted. */
  readonly appId: string | undefined
  readonly signal: AbortSignal
  readonly onNotice: (message: string) => void
}

/** Yields each line without its newline. Throws a StartError where the queue cannot be read. */
export function readQueue(place: QueuePlace, options: ReadQueueOptions): AsyncGenerator<Buffer> {
  const { dataDirectory, nats, partitions } = place
  return nats === null ? journalLines(dataDirectory, options) : streamLines(nats, partitions, options)
}

async function* journalLines(dataDirectory: string, options: ReadQueueOptions): AsyncGenerator<Buffer> {
  const directory = journalDirectory(dataDirectory)
  if (!existsSync(directory))
    options.onNotice(`there is no journal at ${directory} yet: SLUICE_DATA_DIR names the folder that it is in`)
  yield* readLines(directory, { ...options, onDamage: (damage) => options.onNotice(damageText(damage)) })
}

async function* streamLines(access: NatsAccess, partitions: number, options: ReadQueueOptions): AsyncGenerator<Buffer> {
  const { fromStart, follow, signal, onNotice } = options
  const { isThere, subject } = await lookAtStream(access, partitions, options)
  const messages = readStream({
    nats: access,
    // Of a stream that is made after the look all is new.
    from: fromStart || !isThere ? 'start' : 'end',
    follow,
    signal,
    onNotice,
    ...(subject === null ? {} : { subject }),
  })
  try {
    for await (const { data } of messages) yield* recordsOf(data)
  } catch (error) {
    throw new StartError(`the stream cannot be read: ${describeFault(error)}`)
  }
}

/** Reports a stream that does not exist. `subject`: the one that is enough to read; null: read all. */
async function lookAtStream(
  access: NatsAccess,
  partitions: number,
  { appId, onNotice }: ReadQueueOptions,
): Promise<{ readonly isThere: boolean; readonly subject: string | null }> {
  try {
    const connection = await connectNats(access)
    try {
      const report = await describeStream(connection)
      if (report.kind === 'unreadable') throw new StartError(`the stream cannot be read: ${report.reason}`)
      if (report.kind === 'absent') onNotice(`there is no stream ${EVENTS_STREAM} yet`)
      const isThere = report.kind !== 'absent'
      const isForAll = !isThere || appId === undefined
      return { isThere, subject: isForAll ? null : await subjectOfApp(connection, appId, partitions) }
    } finally {
      await connection.close()
    }
  } catch (error) {
    throwStartError(error)
  }
}
