// `sluice find`: where one batch is, and which consumers have had it; or how far back the search looked.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { MAX_SEARCH_MS } from '../../bounds.ts'
import { StartError } from '../../lib/errors.ts'
import { describeFault } from '../../nats/connection.ts'
import { findInQueue } from '../../queue/find/find-in-queue.ts'
import {
  type ConsumerStateName,
  type Finding,
  type Found,
  findingJson,
  type NotFound,
  type Place,
  type Progress,
  type SearchOptions,
  timeText,
} from '../../queue/find/finding.ts'
import { type Question, readQuestion } from '../../queue/find/question.ts'
import { journalDirectory } from '../../queue/journal/segments.ts'
import { type Config, readConfig } from '../../settings/config.ts'
import { EXIT, paint, print, readFlags, type Shell, UsageError } from '../shell.ts'
import { formatCount, formatSpan, formatTable } from '../table.ts'
import { eventLines, readRecord } from '../tail/tail.ts'

const PROGRESS_MS = 1000
/** How long an interrupted command waits for the queue. */
const LEAVE_MS = 1500

export const help = `Usage: sluice find ID [--since TIME] [--events] [--json]
       sluice find --app ID --key IDEMPOTENCY-KEY [--since TIME] [--events] [--json]

Says where a batch is: when it was accepted, of which app, how many events it has, where it lies in the queue, and
for the stream whether each durable consumer has had it. ID is what a 202 shows as X-Batch-Id. Or says that it is
not there, how far the search looked, and how far back the queue reaches.

  --app ID --key KEY   the batch that this app sent under this Idempotency-Key; the first one since the time searched
  --since TIME         look back to this time: 2026-11-20T12:00:00Z, or so long ago: 30m, 2h, 3d
  --events             print its events too, one JSON object a line, as sluice tail does
  --json               for machines; with --events the whole record is in it, byte for byte but for spaces at its end

The id of a batch without an Idempotency-Key tells when it was made, and the search begins there. An id that comes
from a key does not, so only the last ten minutes are read, unless --since goes further back. A search takes at most
${MAX_SEARCH_MS / 1000} s, and shows each second how far it has come; Ctrl-C ends it.

Reads the stream at NATS_URL, or without NATS and Redis the folder SLUICE_DATA_DIR/journal, whether or not the
service runs, and leaves nothing behind.

A consumer has acknowledged a batch, or was sent it (and has not acknowledged it, or something before it), or was not
sent it yet, or was made to begin behind it, or reads other subjects.

Exit code: 0 found, 1 not found or not to be read, 2 for a wrong command line.

Example:
  sluice find 0199f3a0-7c1e-7d2a-9f5b-3e8c1a2b4c6d
  sluice find --app shop --key 0b9e3a52-6f0c-4d7e-9a55-2f8c1d3e4b6a --since 3d
`

export async function run(args: readonly string[], shell: Shell): Promise<number> {
  const isByKey = args.some((arg) => /^--(app|key)(=|$)/.test(arg))
  const { values: flags, positionals } = readFlags(
    args,
    {
      app: { type: 'string' },
      key: { type: 'string' },
      since: { type: 'string' },
      events: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    },
    isByKey ? [] : ['ID'],
  )
  const { app, key, since } = flags
  const reading = readQuestion({ id: positionals[0], app, key, since }, shell.clock())
  if (reading.kind === 'mistake') throw new UsageError(reading.mistake)
  const { question } = reading
  const config = readConfig(shell.env)
  const finding = await searchWithin(config, question, shell)
  if (finding === null) return EXIT.failed
  if (flags.json) await print(shell.stdout, `${findingJson(finding, question, { withRecord: flags.events })}\n`)
  else await print(shell.stdout, formatFinding(finding, question, { config, shell, withEvents: flags.events }))
  return finding.kind === 'found' ? EXIT.ok : EXIT.failed
}

/** null: it was interrupted, and the queue did not answer to that. */
async function searchWithin(config: Config, question: Question, shell: Shell): Promise<Finding | null> {
  const interrupted = new AbortController()
  const interruption = new Promise<void>((resolve) => {
    interrupted.signal.addEventListener('abort', () => resolve())
  })
  const interrupt = (): void => interrupted.abort()
  process.once('SIGINT', interrupt)
  process.once('SIGTERM', interrupt)
  let progress: Progress | null = null
  const telling = setInterval(() => {
    if (progress !== null) shell.stderr.write(`sluice find: ${progressText(progress)}\n`)
  }, PROGRESS_MS)
  try {
    const search = searchQueue(config, question, {
      signal: AbortSignal.any([interrupted.signal, AbortSignal.timeout(MAX_SEARCH_MS)]),
      onProgress: (reached) => (progress = reached),
      onNotice: (message) => void shell.stderr.write(`sluice find: ${message}\n`),
    })
    return await Promise.race([search, interruption.then(() => sleep(LEAVE_MS, null))])
  } finally {
    clearInterval(telling)
    process.off('SIGINT', interrupt)
    process.off('SIGTERM', interrupt)
  }
}

interface QueueSearchOptions extends SearchOptions {
  readonly onNotice: (message: string) => void
}

/** Throws a StartError where the queue cannot be read. */
async function searchQueue(config: Config, question: Question, options: QueueSearchOptions): Promise<Finding> {
  const directory = journalDirectory(config.dataDirectory)
  if (config.nats === null && !existsSync(directory)) options.onNotice(`there is no journal at ${directory}`)
  try {
    return await findInQueue(config, question, options)
  } catch (error) {
    throw config.nats === null ? error : new StartError(describeFault(error))
  }
}

export function progressText({ unit, read, reachedMs }: Progress): string {
  const amount = unit === 'bytes' ? `${formatCount(Math.round(read / 1e6))} MB` : `${formatCount(read)} messages`
  return `${amount} read, ${timeText(reachedMs)} reached`
}

interface Format {
  readonly config: Pick<Config, 'dataDirectory'>
  readonly shell: Pick<Shell, 'colour' | 'clock'>
  readonly withEvents: boolean
}

export function formatFinding(finding: Finding, question: Question, format: Format): string | Buffer {
  if (finding.kind === 'not found') return formatNotFound(finding, question, format)
  const text = Buffer.from(formatFound(finding, format))
  const { line } = finding.record
  const parts = format.withEvents ? readRecord(line) : null
  return parts === null ? text : Buffer.concat([text, Buffer.from('\n'), eventLines(line, parts)])
}

function formatFound({ record, place, consumers }: Found, { config, shell }: Format): string {
  const { batchId, appId, receivedAt, sdkVersion, trace, events } = record
  const details = [
    `${formatCount(events)} ${events === 1 ? 'event' : 'events'}`,
    ...(sdkVersion === null ? [] : [`sdk_version ${JSON.stringify(sdkVersion)}`]),
    ...(trace === null ? [] : [`trace ${JSON.stringify(trace)}`]),
  ]
  const ago = formatSpan(Math.max(0, shell.clock() - Date.parse(receivedAt)))
  const verdict = paint('green', `Batch ${batchId} of app ${appId} is stored`, shell)
  const line = `received ${receivedAt} → ${placeText(place, config.dataDirectory)}`
  return `${verdict}: ${details.join(', ')}, accepted ${ago} ago.\n${line}\n${consumersText(place, consumers)}`
}

function placeText(place: Place, dataDirectory: string): string {
  if (place.kind === 'stream') {
    const { stream, subject, sequence, storedAtMs } = place
    return `stored ${timeText(storedAtMs)} as message ${sequence} of ${stream} (${subject})`
  }
  const path = join(journalDirectory(dataDirectory), place.segment)
  // What `tail -c +N` wants, which counts bytes from 1.
  return `stored in ${path}, to be read by: tail -c +${place.offsetBytes + 1} ${path} | head -c ${place.lengthBytes}`
}

const WORDS: Readonly<Record<ConsumerStateName, string>> = {
  acknowledged: 'has acknowledged it',
  delivered: 'was sent it; whether it has acknowledged it is not known',
  waiting: 'was not sent it yet',
  skipped: 'was made to begin behind it',
  'other subject': 'reads other subjects',
}

function consumersText(place: Place, consumers: Found['consumers']): string {
  if (place.kind === 'journal') return ''
  if (consumers.length === 0) return 'The stream has no durable consumer.\n'
  return `\n${formatTable([['consumer', ''], ...consumers.map(({ name, state }) => [name, WORDS[state]])])}`
}

function formatNotFound(finding: NotFound, { batchId }: Question, { shell }: Format): string {
  const { searched, reachesBackToMs, isComplete, advice } = finding
  const verdict = paint('red', `Batch ${batchId} was not found`, shell)
  const span = `${isComplete ? 'searched' : 'to be searched'} from ${timeText(searched.fromMs)} to ${timeText(searched.toMs)}`
  const reach = reachesBackToMs === null ? '' : `, the queue reaches back to ${timeText(reachesBackToMs)}`
  return `${verdict}: ${span}${reach}.\n${advice}\n`
}
