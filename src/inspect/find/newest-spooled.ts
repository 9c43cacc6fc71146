// The newest records of the stream and of this node's spool, as of one queue: while NATS is away, the newest ones are on this disk.

import { setTimeout as sleep } from 'node:timers/promises'
import { readIds } from '../../contract/record/record-members.ts'
import { readSpoolLine } from '../../contract/record/spool-line.ts'
import { newestInJournal } from '../../queue/journal/newest-records.ts'
import { spoolFolders } from '../../queue/spool/inspect-spool.ts'

/** A NATS that has not answered for so long is waited for behind what is here. */
const PATIENCE_MS = 500

type Lists = AsyncGenerator<readonly Buffer[]>

/** As it was accepted, newest first. What was sent is there as well, until NATS has synced it. */
export async function* newestInSpool(directory: string): Lists {
  for (const folder of await spoolFolders(directory)) {
    for await (const lines of newestInJournal(folder)) {
      // Whoever reads the journal reports a line that is none of a spool.
      yield lines.map((line) => readSpoolLine(line)?.line.subarray(0, -1) ?? line)
    }
  }
}

/**
 * By when they were received, each batch once. Where `stored` cannot be read, what `spooled` has comes first, and then its
 * error.
 */
export async function* joined(spooled: Lists, stored: Lists): Lists {
  const [here, there] = [linesOf(spooled), linesOf(stored)]
  const seen = new Set<string>()
  let isLate = false
  try {
    let first = await here.next()
    if (first.done === true) return yield* stored
    isLate = true
    const asked = there.next().finally(() => (isLate = false))
    // Told below, once what is here was read.
    asked.catch(() => {})
    await Promise.race([asked.catch(() => {}), sleep(PATIENCE_MS, undefined, { ref: false })])
    let second = isLate ? null : await asked.catch(() => null)
    while (first.done !== true) {
      if (second !== null && second.done !== true && isNewer(second.value, first.value)) {
        if (!seen.has(second.value.batch)) yield [second.value.line]
        second = await there.next()
        continue
      }
      seen.add(first.value.batch)
      yield [first.value.line]
      first = await here.next()
    }
    for (second ??= await asked; second.done !== true; second = await there.next())
      if (!seen.has(second.value.batch)) yield [second.value.line]
  } finally {
    // What was begun is closed, also where the reader has had enough. He does not wait for a NATS that does not answer.
    const closed = Promise.all([here.return(undefined), there.return(undefined), stored.return(undefined)])
    if (isLate) closed.catch(() => {})
    else await closed
  }
}

interface Line {
  readonly line: Buffer
  /** A key that is used again later gives another batch the same id. */
  readonly batch: string
  /** '': it is damaged. */
  readonly receivedAt: string
}

async function* linesOf(lists: Lists): AsyncGenerator<Line> {
  for await (const lines of lists)
    for (const line of lines) {
      const { batchId = '', receivedAt = '' } = readIds(line) ?? {}
      yield { line, batch: `${batchId} ${receivedAt}`, receivedAt }
    }
}

/** A damaged one goes with what is before it. */
function isNewer(one: Line, other: Line): boolean {
  return one.receivedAt === '' || (other.receivedAt !== '' && one.receivedAt > other.receivedAt)
}
