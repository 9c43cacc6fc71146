// `sluice tail`: events as they become durable, one JSON object a line, an event as it was sent.

import { eventsOf } from '../../queue/record/record-events.ts'
import { type Config, readConfig } from '../../settings/config.ts'
import { EXIT, print, readFlags, type Shell, UsageError, untilInterrupted } from '../shell.ts'
import { escapedJson, formatCount } from '../table.ts'
import { type ReadQueueOptions, readQueue } from './queue-lines.ts'
import { printRefusals } from './refusals.ts'
import { unknownApp } from './unknown-app.ts'

const NEWLINE = Buffer.from('\n')
/** In place of an app: refusals of no known app. */
const NO_APP = '-'
/** How long an interrupted command waits for the queue. */
const LEAVE_MS = 500

export const help = `Usage: sluice tail [--app ID] [--from-start] [--no-follow] [--records]
       sluice tail --refused [--app ID] [--from-start] [--no-follow]

Prints events as they are queued, one JSON object a line:
  {"batch_id":…,"app_id":…,"received_at":…,"sdk_version":…,"event":{…}}
An event is printed as its client sent it, but that U+007F to U+009F are escaped, which a terminal obeys, and on a terminal
without the white space between its members; sdk_version is null where the request had none. Where the request had a
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
another body, whose events are not stored. reason says why a request was answered 503 (docs/runbooks.md), and is null
elsewhere. origin is that of a web page that SLUICE_CORS_ORIGINS does not allow, where that is why. --app - shows those of
no known app. --from-start begins with the refusals that the service still knows; --no-follow prints those, at most 1,000, and
ends. It asks the service on SLUICE_DATA_DIR, or the one at SLUICE_ADMIN_HOST and SLUICE_ADMIN_PORT where that port is set
or NATS_URL is, with SLUICE_CONSOLE_TOKEN where the service has one, and asks again after a break: what was refused meanwhile
is not shown.

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
  if (unknown !== null && follow) await print(shell.stderr, `sluice tail: ${unknown.message}\n`)
  const printed = await printAll()
  if (unknown !== null && printed === 0 && !follow) throw unknown
}

type Wanted = Omit<ReadQueueOptions, 'onNotice'> & { readonly asStored: boolean }

async function printQueue(config: Config, shell: Shell, wanted: Wanted): Promise<number> {
  let printed = 0
  let skipped = 0
  const onNotice = (message: string): void => void shell.stderr.write(`sluice tail: ${message}\n`)
  for await (const line of readQueue(config, { ...wanted, onNotice })) {
    const record = readRecord(line)
    if (record === null) {
      if (++skipped === 1) onNotice('skipped a line that is not a queue record')
      continue
    }
    if (wanted.appId !== undefined && record.appId !== wanted.appId) continue
    const stored = Buffer.concat([line, NEWLINE])
    const shown = shell.terminal ? escapedJson(stored) : stored
    await print(shell.stdout, wanted.asStored ? shown : eventLines(record, shell.terminal))
    printed += 1
  }
  if (skipped > 1) onNotice(`skipped ${formatCount(skipped)} such lines in all`)
  return printed
}

export interface RecordParts {
  readonly appId: string
  /** JSON of what each of its events is printed with. */
  readonly head: string
  /** As they were sent. */
  readonly events: readonly Buffer[]
}

/** null: not a queue record. */
export function readRecord(line: Buffer): RecordParts | null {
  const { batch_id, app_id, received_at, sdk_version = null, trace, events } = membersOf(line)
  if (batch_id === undefined || typeof app_id !== 'string' || received_at === undefined || !Array.isArray(events))
    return null
  const head = JSON.stringify({ batch_id, app_id, received_at, sdk_version, trace })
  return { appId: app_id, head, events: Array.from(eventsOf(line), ({ bytes }) => bytes) }
}

/** None where the line is not JSON. */
function membersOf(line: Buffer): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(line.toString())) as Readonly<Record<string, unknown>>
  } catch {
    return {}
  }
}

/** One line for each event of a record, with no character that a terminal obeys; for people, compact. */
export function eventLines({ head, events }: RecordParts, isCompact = false): Buffer {
  const before = Buffer.from(`${head.slice(0, -1)},"event":`)
  const after = Buffer.from('}\n')
  const parts = events.flatMap((event) => [before, isCompact ? compact(event) : event, after])
  return escapedJson(Buffer.concat(parts))
}

/** Valid JSON without the white space around its tokens. */
function compact(json: Buffer): Buffer {
  // One character for each byte, so that the text of strings passes through.
  const text = json.toString('latin1').replace(/("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+/g, '$1')
  return Buffer.from(text, 'latin1')
}
