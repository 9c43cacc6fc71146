// `sluice tail`: events as they become durable, one JSON object a line, every byte of an event as it was sent.

import { setTimeout as sleep } from 'node:timers/promises'
import { MAX_DEPTH } from '../../bounds.ts'
import { type JsonArray, type JsonValue, readJson } from '../../decode/json.ts'
import { type Config, readConfig } from '../../settings/config.ts'
import { EXIT, print, readFlags, type Shell, UsageError } from '../shell.ts'
import { unknownApp } from './known-app.ts'
import { type ReadQueueOptions, readQueue } from './queue-lines.ts'
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
An event stands as its client sent it; sdk_version is null where the request had none. Where the request had a
traceparent, "trace" stands before the event.

  --app ID       only events of this app. An app that has no record is an error; with --from-start it may have been
                 removed, and is an error only where --no-follow ends without an event of it
  --from-start   begin with the oldest event that is kept, not with the next
  --no-follow    end at the last event that is there now
  --records      print queue records: one accepted request a line, with all its events

Reads the stream at NATS_URL, or without NATS and Redis the folder SLUICE_DATA_DIR/journal, whether or not the
service runs. It leaves nothing behind in either and goes on after a break of the connection to NATS. With
--app and the SLUICE_PARTITIONS of the service it asks NATS for one partition only, where the app has sent lately.
Ctrl-C ends it with exit code 0.

With --refused it prints what the running service refuses, one JSON object a line, without content:
  {"time":…,"app_id":…,"code":…,"path":…,"sdk_version":…,"request_id":…,"message":…,"node":…}
path names the first offending member. code is the answer's, or replayed_other_body: a key that was used again for
another body, whose events are not stored. --app - shows those of no known app. --from-start begins with the refusals
that the service still knows; --no-follow prints those, at most 1,000, and ends. It asks the admin port at
SLUICE_ADMIN_HOST and SLUICE_ADMIN_PORT, with SLUICE_CONSOLE_TOKEN where the service has one, and asks again after a
break: what was refused meanwhile is not shown.

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
  const interrupted = new AbortController()
  const interruption = new Promise<void>((resolve) => {
    interrupted.signal.addEventListener('abort', () => resolve())
  })
  const interrupt = (): void => interrupted.abort()
  process.once('SIGINT', interrupt)
  process.once('SIGTERM', interrupt)
  const wanted = {
    // Of refusals, only those that the service knows already can be printed without following.
    fromStart: flags['from-start'] || (flags.refused && flags['no-follow']),
    follow: !flags['no-follow'],
    appId: flags.app,
    signal: interrupted.signal,
  }
  const printing = printKnownApp(config, shell, wanted, () =>
    flags.refused
      ? printRefusals(config, shell, wanted)
      : printQueue(config, shell, { ...wanted, asStored: flags.records }),
  )
  // On an interruption the reader deletes its consumer; a queue that does not answer must not keep the command running.
  await Promise.race([orInterrupted(printing, interrupted.signal), interruption.then(() => sleep(LEAVE_MS))])
  return EXIT.ok
}

/** What an interruption broke is no error. */
async function orInterrupted(printing: Promise<void>, signal: AbortSignal): Promise<void> {
  try {
    await printing
  } catch (error) {
    if (!signal.aborted) throw error
  }
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
  const onNotice = (message: string): void => void shell.stderr.write(`sluice tail: ${message}\n`)
  for await (const line of readQueue(config, { ...wanted, onNotice })) {
    const record = readRecord(line)
    if (record === null) {
      await print(shell.stderr, 'sluice tail: skipped a line that is not a queue record\n')
      continue
    }
    if (wanted.appId !== undefined && record.appId !== wanted.appId) continue
    await print(shell.stdout, wanted.asStored ? Buffer.concat([line, NEWLINE]) : eventLines(line, record))
    printed += 1
  }
  return printed
}

export interface RecordParts {
  readonly appId: string
  readonly batchId: JsonValue
  readonly appIdText: JsonValue
  readonly receivedAt: JsonValue
  readonly sdkVersion: JsonValue | null
  readonly trace: JsonValue | null
  readonly events: JsonArray
}

/** null: not a queue record. */
export function readRecord(line: Buffer): RecordParts | null {
  const reading = readJson(line, MAX_DEPTH + 1)
  if (reading.kind === 'broken' || reading.value.kind !== 'object') return null
  const members = new Map(reading.value.members.map(({ key, value }) => [key, value]))
  const batchId = members.get('batch_id')
  const appId = members.get('app_id')
  const receivedAt = members.get('received_at')
  const events = members.get('events')
  if (batchId === undefined || appId?.kind !== 'string' || receivedAt === undefined || events?.kind !== 'array')
    return null
  return {
    appId: appId.text,
    batchId,
    appIdText: appId,
    receivedAt,
    sdkVersion: members.get('sdk_version') ?? null,
    trace: members.get('trace') ?? null,
    events,
  }
}

/** One line for each event of a record, cut out of the line, so that every byte is as it was sent. */
export function eventLines(line: Buffer, record: RecordParts): Buffer {
  const cut = (span: JsonValue): Buffer => line.subarray(span.start, span.end)
  const head = Buffer.concat([
    Buffer.from('{"batch_id":'),
    cut(record.batchId),
    Buffer.from(',"app_id":'),
    cut(record.appIdText),
    Buffer.from(',"received_at":'),
    cut(record.receivedAt),
    Buffer.from(',"sdk_version":'),
    record.sdkVersion === null ? Buffer.from('null') : cut(record.sdkVersion),
    ...(record.trace === null ? [] : [Buffer.from(',"trace":'), cut(record.trace)]),
    Buffer.from(',"event":'),
  ])
  const tail = Buffer.from('}\n')
  const parts: Buffer[] = []
  for (const event of record.events.items) parts.push(head, cut(event), tail)
  return Buffer.concat(parts)
}
