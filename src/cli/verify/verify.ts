// `sluice verify`: reads all that is stored, and lists what is damaged, where, and whose events it was.

import type { Verification } from '../../inspect/verify/verification.ts'
import { type VerifyOptions, verifyJournal } from '../../inspect/verify/verify-journal.ts'
import { verifyStream } from '../../inspect/verify/verify-stream.ts'
import { StartError } from '../../lib/errors.ts'
import type { NatsAccess } from '../../nats/address.ts'
import { describeFault } from '../../nats/connection.ts'
import { EVENTS_STREAM } from '../../nats/store-names.ts'
import { journalDirectory, missingJournal } from '../../queue/journal/segments.ts'
import { spoolFolders } from '../../queue/spool/inspect-spool.ts'
import { readConfig } from '../../settings/config.ts'
import { readFlags, type Shell } from '../shell.ts'
import { type Part, spoolPart, verifyParts } from '../verified-parts.ts'

export const help = `Usage: sluice verify [--json]

Reads all that is stored, and says what is damaged, where, and whose events it was: the journal in SLUICE_DATA_DIR, or
with NATS_URL the stream, and the spool in SLUICE_SPOOL_DIR. Without NATS: sluice spool verify DIR. It changes nothing, and
a service may be running meanwhile.

Checked are
  - the checksum of each write to the journal, and that no segment is missing or shorter than it was;
  - each record: that it is JSON with the members that a record has;
  - that no batch with an Idempotency-Key is stored again within 600 s. On one machine a key is free again after 300 s: a
    client that used it for another batch then is listed too, and that is no damage;
  - that what was charged is what is stored: the header Sluice-Cost of a message, or what a start counts of a record.

Segments of version 0.3 and before have no checksums: their records are checked, and their bytes are counted.

  --json   for machines: one object, with the first 1,000 problems

Exit code: 0 all is well, 1 something is damaged, or it could not all be read, 2 for a wrong command line.

Example:
  sluice verify
  SLUICE_DATA_DIR=/backup/data sluice verify --json
`

export async function run(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags } = readFlags(args, { json: { type: 'boolean', default: false } })
  const { nats, dataDirectory, spool } = readConfig(shell.env)
  const directory = journalDirectory(dataDirectory)
  const missing = nats === null ? await missingJournal(dataDirectory) : null
  if (missing !== null) throw new StartError(missing)
  const queue: Part =
    nats === null
      ? { where: directory, read: (found, options) => verifyJournal(directory, found, options) }
      : { where: `the stream ${EVENTS_STREAM}`, read: (found, options) => readStream(nats, found, options) }
  const spools = spool === null ? [] : await spoolFolders(spool.directory)
  return await verifyParts([queue, ...spools.map(spoolPart)], flags.json, shell)
}

/** Throws a StartError where it cannot be read. */
async function readStream(nats: NatsAccess, found: Verification, options: VerifyOptions): Promise<void> {
  try {
    const problem = await verifyStream(nats, found, options)
    if (problem !== null) throw new StartError(problem)
  } catch (error) {
    throw error instanceof StartError ? error : new StartError(describeFault(error))
  }
}
