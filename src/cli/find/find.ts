// `sluice find`: where one batch is, and which consumers have had it; or why a request was refused; or how far back the
// search looked.

import { join } from 'node:path'
import type { ConsumerStateName } from '../../contract/admin/words.ts'
import { MAX_SEARCH_MS } from '../../contract/bounds.ts'
import { findInQueue } from '../../inspect/find/find-in-queue.ts'
import { findingJson, noteDamage, timeText } from '../../inspect/find/finding-json.ts'
import { errorMessage, StartError } from '../../lib/errors.ts'
import { describeFault } from '../../nats/connection.ts'
import {
  type Finding,
  type Found,
  goOnBeforeMs,
  type NotFound,
  type Place,
  type Progress,
} from '../../queue/find/finding.ts'
import { type Asked, isBatchId, type Question, readQuestion } from '../../queue/find/question.ts'
import { damageText } from '../../queue/journal/damage-text.ts'
import type { Damage } from '../../queue/journal/segment-cursor.ts'
import { journalDirectory, missingJournal } from '../../queue/journal/segments.ts'
import { type Config, readConfig } from '../../settings/config.ts'
import { askForList } from '../admin-api.ts'
import { eventLines, readParts } from '../record-lines.ts'
import { EXIT, paint, print, readFlags, type Shell, say, UsageError, untilInterrupted } from '../shell.ts'
import { counted, formatCount, formatSpan, formatTable, jsonFor, printable } from '../table.ts'

const PROGRESS_MS = 1000
/** How long an interrupted command waits for the queue. */
const LEAVE_MS = 1500

export const help = `Usage: sluice find ID [--since TIME] [--before TIME] [--events] [--json]
       sluice find --app ID --key IDEMPOTENCY-KEY [--since TIME] [--before TIME] [--events] [--json]

Says where a batch is: when it was accepted, of which app, how many events it has, where it lies in the queue, and
for the stream whether each durable consumer has had it. ID is what a 202 shows as X-Batch-Id. Or says that it is
not there, how far the search looked, and how far back the queue reaches.

ID may also be the X-Request-Id of a refusal: it says when and why, as long as the running service still knows it.

  --app ID --key KEY   the batch that this app sent under this Idempotency-Key; of several the newest
  --since TIME         look back to this time: 2026-11-20T12:00:00Z, or so long ago: 30m, 2h, 3d
  --before TIME        only what was stored before this time
  --events             print its events too, one JSON object a line, as sluice tail does
  --json               for machines; with --events the whole record is in it, byte for byte but for spaces at its end

The id of a batch without an Idempotency-Key holds the time at which it was made: ten minutes on both sides of it are read, unless
--since or --before says otherwise. An id that comes from a key does not: all of the journal is read, or of the stream
as much as ${MAX_SEARCH_MS / 1000} s reach, the newest first. The answer then has the command that goes on from there. With --app
and the SLUICE_PARTITIONS of the service only the app's partition of the stream is read. Ctrl-C ends a search.

Reads the spool in SLUICE_SPOOL_DIR and the stream at NATS_URL, or without NATS and Redis the folder SLUICE_DATA_DIR/journal,
whether or not the service runs, and leaves nothing behind. The spools of other nodes are not read. For a refusal it asks the service on SLUICE_DATA_DIR, or the one at
SLUICE_ADMIN_HOST and SLUICE_ADMIN_PORT where that port is set or NATS_URL is, with SLUICE_CONSOLE_TOKEN where it has one.

A consumer has acknowledged a batch, or was sent it (and has not acknowledged it, or something before it), or was not
sent it yet, or starts after its message and never received it, or reads other subjects.

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
      before: { type: 'string' },
      events: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    },
    isByKey ? [] : ['ID'],
  )
  const { app, key, since, before } = flags
  const asked = { id: positionals[0], app, key, since, before }
  const reading = readQuestion(asked, shell.clock())
  if (reading.kind === 'mistake') {
    throw new UsageError(`${reading.member === 'id' ? 'ID' : `--${reading.member}`}: ${reading.mistake}`)
  }
  const { question } = reading
  const config = readConfig(shell.env)
  const refusal = question.madeAtMs === null ? null : await askForRefusal(config, question.batchId)
  if (typeof refusal === 'object' && refusal !== null) {
    const text = flags.json
      ? jsonFor(shell, `${JSON.stringify({ found: true, refusal })}\n`)
      : refusalText(refusal, shell)
    await print(shell.stdout, text)
    return EXIT.ok
  }
  const damage: Damage[] = []
  const finding = await searchWithin(config, { question, damage }, shell)
  if (finding === null) return EXIT.failed
  if (flags.json)
    await print(
      shell.stdout,
      jsonFor(shell, `${findingJson(finding, question, { withRecord: flags.events, damage })}\n`),
    )
  else await print(shell.stdout, formatFinding(finding, question, { config, shell, asked, withEvents: flags.events }))
  if (finding.kind === 'found') return EXIT.ok
  if (refusal !== null) await say(shell, `sluice find: ${refusal}\n`)
  return EXIT.failed
}

/** null: it was interrupted, and the queue did not answer to that. Throws a StartError where the queue cannot be read. */
async function searchWithin(
  config: Config,
  { question, damage }: { readonly question: Question; readonly damage: Damage[] },
  shell: Shell,
): Promise<Finding | null> {
  const { nats, dataDirectory } = config
  const tell = (message: string): void => void say(shell, `sluice find: ${message}\n`)
  const missing = nats === null ? await missingJournal(dataDirectory) : null
  if (missing !== null) tell(missing)
  let toldAtMs = performance.now()
  const onProgress = (progress: Progress): void => {
    if (!shell.interactive || performance.now() - toldAtMs < PROGRESS_MS) return
    toldAtMs = performance.now()
    tell(progressText(progress))
  }
  // A journal is read to its end, on the machine of whoever asks.
  const endings = nats === null ? [] : [AbortSignal.timeout(MAX_SEARCH_MS)]
  const onDamage = (one: Damage): void => {
    if (noteDamage(damage, one)) tell(damageText(one))
  }
  const search = (interrupted: AbortSignal): Promise<Finding> =>
    findInQueue(config, question, {
      signal: AbortSignal.any([interrupted, ...endings]),
      onProgress,
      onDamage,
      onUnread: tell,
    })
  try {
    return await untilInterrupted(search, { leaveMs: LEAVE_MS })
  } catch (error) {
    throw nats === null ? error : new StartError(describeFault(error))
  }
}

export function progressText({ bytesRead, reachedMs }: Progress): string {
  return `${formatCount(Math.round(bytesRead / 1e6))} MB read, back to ${timeText(reachedMs)}`
}

interface Format {
  readonly config: Pick<Config, 'dataDirectory' | 'spool'>
  readonly shell: Pick<Shell, 'colour' | 'clock' | 'terminal'>
  readonly asked: Asked
  readonly withEvents: boolean
}

export function formatFinding(finding: Finding, question: Question, format: Format): string | Buffer {
  if (finding.kind === 'not found') return formatNotFound(finding, question, format)
  const text = Buffer.from(formatFound(finding, format))
  const parts = format.withEvents ? readParts(finding.record.line) : null
  return parts === null ? text : Buffer.concat([text, Buffer.from('\n'), eventLines(parts, format.shell)])
}

function formatFound({ record, place, consumers }: Found, { config, shell }: Format): string {
  const { batchId, appId, receivedAt, sdkVersion, trace, events } = record
  const details = [
    counted(events, 'event'),
    ...(sdkVersion === null ? [] : [`sdk_version ${printable(JSON.stringify(sdkVersion))}`]),
    ...(trace === null ? [] : [`trace ${printable(JSON.stringify(trace))}`]),
  ]
  const ago = formatSpan(Math.max(0, shell.clock() - Date.parse(receivedAt)))
  const verdict =
    place.kind === 'spool'
      ? paint('yellow', `Batch ${batchId} of app ${appId} is in the spool of this node`, shell)
      : paint('green', `Batch ${batchId} of app ${appId} is stored`, shell)
  const line = `received ${receivedAt} → ${placeText(place, config.dataDirectory)}`
  return `${verdict}: ${details.join(', ')}, accepted ${ago} ago.\n${line}\n${consumersText(place, consumers)}`
}

function placeText(place: Place, dataDirectory: string): string {
  if (place.kind === 'stream') {
    const { stream, subject, sequence, storedAtMs, isSpooled } = place
    const before = isSpooled ? ', and in the spool of a node until then' : ''
    return `stored ${timeText(storedAtMs)} as message ${sequence} of ${stream} (${subject})${before}`
  }
  const isSpooled = place.kind === 'spool'
  const path = printable(join(journalDirectory(isSpooled ? place.folder : dataDirectory), place.segment))
  const where = isSpooled
    ? 'not in the stream yet, as far as NATS has acknowledged it; it is sent when NATS takes it. It is'
    : 'stored'
  // What `tail -c +N` wants, which counts bytes from 1.
  return `${where} in ${path}, to be read by: tail -c +${place.offsetBytes + 1} ${path} | head -c ${place.lengthBytes}`
}

const WORDS: Readonly<Record<ConsumerStateName, string>> = {
  acknowledged: 'has acknowledged it',
  delivered: 'was sent it; whether it has acknowledged it is not known',
  waiting: 'was not sent it yet',
  skipped: 'starts after this message (never received it)',
  'other subject': 'reads other subjects',
}

function consumersText(place: Place, consumers: Found['consumers']): string {
  if (place.kind !== 'stream') return ''
  if (consumers.length === 0) return 'The stream has no durable consumer.\n'
  return `\n${formatTable([['consumer', ''], ...consumers.map(({ name, state }) => [name, WORDS[state]])])}`
}

function formatNotFound(finding: NotFound, question: Question, format: Format): string {
  const { searched, reachesBackToMs } = finding
  const { shell } = format
  const verdict = paint('red', `Batch ${question.batchId} was not found`, shell)
  const reach = reachesBackToMs === null ? '' : `, the queue reaches back to ${timeText(reachesBackToMs)}`
  const span = `searched from ${timeText(searched.fromMs)} to ${timeText(searched.beforeMs)}`
  return `${verdict}: ${span}${reach}.\n${adviceFor(finding, question, format)}\n`
}

/** The command that searches where this search has not read. */
function nextCommand(finding: NotFound, { spans }: Question, { asked, withEvents }: Format): string {
  const { id, app, key, since } = asked
  const words = [
    'sluice find',
    ...(id === undefined ? ['--app', app, '--key', key] : [id]),
    ...(since === undefined ? [] : ['--since', timeText(spans[spans.length - 1].fromMs)]),
    '--before',
    timeText(goOnBeforeMs(finding)),
    ...(withEvents ? ['--events'] : []),
  ]
  return words.join(' ')
}

function adviceFor(finding: NotFound, question: Question, format: Format): string {
  const { madeAtMs, batchId } = question
  const { config } = format
  if (!isBatchId(batchId))
    return 'Ids of batches and requests have version 5 or 7, and this one has another. If it is an Idempotency-Key: sluice find --app ID --key KEY'
  const made = madeAtMs === null ? '' : `The id was made at ${timeText(madeAtMs)}`
  switch (finding.reason) {
    case 'stopped':
      return `The search ended before all was read. To read on:\n  ${nextCommand(finding, question, format)}`
    case 'empty':
      return 'The queue is empty.'
    case 'future':
      return `${made}, which is in the future: it is not an id of this service, or a clock was wrong.`
    case 'expired':
      return `${made}, which is older than anything the queue still has: the batch was removed when it expired, or it was never stored.`
    case 'narrowed':
      return 'The queue has more, outside of these times: search with another --since or --before, or without them.'
    case 'absent':
      return madeAtMs === null
        ? 'All that the queue has was searched: the batch was refused, it never arrived, it has another app or key, or it was removed when it expired.'
        : `${made}, and the queue reaches back further than that: no batch with this id was stored here. Every batch that was answered 202 is stored${config.spool === null ? '' : ', or in the spool of a node'}.`
  }
}

/** Its nodes wait half a second for each other. */
const TIMEOUT_MS = 3000
/** In this order, those that it has. The time and the code stand in the sentence above. */
const SHOWN = ['reason', 'path', 'shape', 'origin', 'message', 'sdk_version', 'node'] as const

type Refusal = Readonly<Record<string, unknown>>

/** A sentence where none is known. */
async function askForRefusal(config: Config, requestId: string): Promise<Refusal | string> {
  try {
    const path = `/api/refusals?request_id=${requestId}&limit=1`
    const refusals = await askForList(config, path, 'refusals', AbortSignal.timeout(TIMEOUT_MS))
    // A service of an earlier version answers with its newest one.
    const known = refusals.map((one) => Object(one) as Refusal).find((one) => one['request_id'] === requestId)
    return known ?? 'the running service knows no refusal with this id, of the newest ones that it keeps'
  } catch (error) {
    return `the service could not be asked whether it refused a request with this id: ${errorMessage(error)}`
  }
}

export function refusalText(refusal: Refusal, shell: Pick<Shell, 'colour' | 'clock'>): string {
  const text = (member: string): string => printable(String(refusal[member]))
  const ago = formatSpan(Math.max(0, shell.clock() - Date.parse(text('time'))))
  const app = refusal['app_id'] === null ? 'no known app' : `app ${text('app_id')}`
  const verdict = paint('red', `Request ${text('request_id')} of ${app} was refused`, shell)
  const rows = SHOWN.filter((member) => (refusal[member] ?? null) !== null).map((member) => [member, text(member)])
  return `${verdict} at ${text('time')}, ${ago} ago: ${text('code')}.\n${formatTable(rows)}`
}
