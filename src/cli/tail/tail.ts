// `sluice tail`: events as they become durable, one JSON object a line, an event as it was sent.

import { type ReadQueueOptions, readQueue } from '../../inspect/find/queue-lines.ts'
import type { Clock } from '../../lib/clock.ts'
import { StartError } from '../../lib/errors.ts'
import { missingJournal } from '../../queue/journal/segments.ts'
import { noSuchApp } from '../../records/app-draft.ts'
import { withAppRecords } from '../../records/app-records.ts'
import { type Config, readConfig } from '../../settings/config.ts'
import { eventLines, readParts } from '../record-lines.ts'
import { EXIT, print, readFlags, type Shell, say, UsageError, untilInterrupted } from '../shell.ts'
import { formatCount, jsonFor } from '../table.ts'
import { printRefusals } from './refusals.ts'

const NEWLINE = Buffer.from('\n')
/** In place of an app: refusals of no known app. */
const NO_APP = '-'
/** How long an interrupted command waits for the queue. */
const LEAVE_MS = 500

export const help = `Usage: sluice tail [--app ID] [--from-start] [--no-follow] [--records]
       sluice tail --refused [--app ID] [--from-start] [--no-follow]

Prints events as they are queued, one JSON object a line:
  {"batch_id":…,"app_id":…,"received_at":…,"sdk_version":…,"event":{…}}
An event is printed as its client sent it. On a terminal the white space between its members is left out, and characters
that a terminal obeys (U+007F to U+009F, and those that turn the direction of text) are escaped; sdk_version is null where the request had none. Where the request had a
traceparent, "trace" comes before the event.

  --app ID       only events of this app. An app that has no record is an error; with --from-start it may have been
                 removed, and is an error only where --no-follow ends without an event of it
  --from-start   begin with the oldest event that is kept, not with the next
  --no-follow    end at the last event that is there now
  --records      print queue records: one accepted request a line, with all its events

Reads the stream at NATS_URL, or without NATS and Redis the folder SLUICE_DATA_DIR/journal, whether or not the
service runs. It leaves nothing behind in either and continues after a break of the connection to NATS. With
--app and the SLUICE_PARTITIONS of the service it asks NATS for one partition only, where the app has sent lately.
Ctrl-C ends it with exit code 0.

With --refused it prints what the running service refuses, one JSON object a line, without content:
  {"time":…,"app_id":…,"code":…,"reason":…,"origin":…,"path":…,"sdk_version":…,"request_id":…,"message":…,"node":…}
path names the first offending member. code is the answer's, or replayed_other_body: a key that was used again for
another body, whose events are not stored. reason says why a request was answered 503 (docs/runbooks.md), is bytes where
the app's bytes of the minute were used up, origin where a page may not send with the key, and null elsewhere. origin is that
of a web page that SLUICE_CORS_ORIGINS or the app's origins do not allow, where that is why.
--app - shows those of no known app. --from-start begins with the refusals that the service still knows; --no-follow prints
those, at most 1,000, and ends. It asks the service on SLUICE_DATA_DIR, or the one at SLUICE_ADMIN_HOST and SLUICE_ADMIN_PORT
where that port is set or NATS_URL is, with SLUICE_CONSOLE_TOKEN where the service has one, and asks again after a break:
what was refused meanwhile is not shown.

Example:
  sluice tail --from-start --no-follow | jq -r .event.name | sort | uniq -c
`

export async function run(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags } = readFlags(args, {
    app: { type: 'string' },
    'from-start': { type: 'boolean', default: false },
    'no-follow': { type: 'boolean', default: false },
    records: { type: 'boolean', default: false },
    refused: { type: 'boolean', default: false },
  })
  if (flags.refused && flags.records) throw new UsageError('--refused and --records do not go together')
  const config = readConfig(shell.env)
  const wanted = {
    // Of refusals, only those that the service knows already can be printed without following.
    fromStart: flags['from-start'] || (flags.refused && flags['no-follow']),
    follow: !flags['no-follow'],
    appId: flags.app,
  }
  // On an interruption the reader deletes its consumer; a queue that does not answer must not keep the command running.
  await untilInterrupted(
    (signal) =>
      printKnownApp(config, shell, wanted, () =>
        flags.refused
          ? printRefusals(config, shell, { ...wanted, signal })
          : printQueue(config, shell, { ...wanted, asStored: flags.records, signal }),
      ),
    { leaveMs: LEAVE_MS },
  )
  return EXIT.ok
}

type AppWanted = Pick<Wanted, 'appId' | 'fromStart' | 'follow'>

/** An app without a record is an error, unless what is printed may be older than its removal. */
async function printKnownApp(
  config: Config,
  shell: Shell,
  { appId, fromStart, follow }: AppWanted,
  printAll: () => Promise<number>,
): Promise<void> {
  const unknown = appId === undefined || appId === NO_APP ? null : await unknownApp(config, shell.clock, appId)
  if (unknown !== null && !fromStart) throw unknown
  if (unknown !== null && follow) await say(shell, `sluice tail: ${unknown.message}\n`)
  const printed = await printAll()
  if (unknown !== null && printed === 0 && !follow) throw unknown
}

/** null: the app exists, or it cannot be known, since the records cannot be read or there are none. */
async function unknownApp(config: Config, clock: Clock, appId: string): Promise<StartError | null> {
  try {
    const { records, complaints } = await withAppRecords(config, clock, (stored) => stored.list())
    const isKnown = records.some((record) => record.app_id === appId)
    // A record that cannot be used may be the app's.
    return isKnown || records.length === 0 || complaints.length > 0 ? null : noSuchApp(appId, records)
  } catch (error) {
    if (error instanceof StartError) return null
    throw error
  }
}

type Wanted = Omit<ReadQueueOptions, 'onNotice'> & { readonly asStored: boolean }

async function printQueue(config: Config, shell: Shell, wanted: Wanted): Promise<number> {
  // One that is missing is as good as an empty one; one that cannot be read is not.
  if (config.nats === null) await missingJournal(config.dataDirectory)
  let printed = 0
  let skipped = 0
  const onNotice = (message: string): void => void say(shell, `sluice tail: ${message}\n`)
  for await (const line of readQueue(config, { ...wanted, onNotice })) {
    const record = readParts(line)
    if (record === null) {
      if (++skipped === 1) onNotice('skipped a line that is not a queue record')
      continue
    }
    if (wanted.appId !== undefined && record.appId !== wanted.appId) continue
    const stored = Buffer.concat([line, NEWLINE])
    const asStored = shell.terminal ? jsonFor(shell, stored.toString()) : stored
    await print(shell.stdout, wanted.asStored ? asStored : eventLines(record, shell))
    printed += 1
  }
  if (skipped > 1) onNotice(`skipped ${formatCount(skipped)} such lines in all`)
  return printed
}
