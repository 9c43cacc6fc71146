// `sluice explain`: says what would happen to a body now. It makes the checks of a request against the stores, but
// queues and charges nothing.

import { closeSync, constants, createReadStream, openSync, readSync, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { App } from '../../apps/app.ts'
import { Explained, type Limit } from '../../contract/admin/apps.ts'
import type { Of } from '../../contract/admin/schema.ts'
import { MAX_BODY_BYTES, MAX_ERRORS_COUNTED } from '../../contract/bounds.ts'
import type { OverloadReason, WindowView } from '../../contract/outcome.ts'
import { OVERLOAD_ADVICE } from '../../contract/overload-advice.ts'
import { type Explanation, explain, judgeBody, toJson, violationText } from '../../inspect/explain.ts'
import { errorCode, errorMessage, StartError } from '../../lib/errors.ts'
import { type Config, readConfig } from '../../settings/config.ts'
import { answerIn, askAdmin, orService, textIn } from '../admin-api.ts'
import { EXIT, paint, readFlags, type Shell, say } from '../shell.ts'
import { withStores } from '../stores/usage-stores.ts'
import { answer, formatBytes, formatCount, formatTable, printable } from '../table.ts'
import { toleranceText, usageIn, windowsTable } from '../windows.ts'

/** Without its answer the command goes on. */
const BYTES_TIMEOUT_MS = 2000
/** In place of the stores. */
const ANSWER_TIMEOUT_MS = 10_000
/** A service of a later version may have other reasons. */
const ADVICE: Partial<typeof OVERLOAD_ADVICE> = OVERLOAD_ADVICE
const PIPE = { bytes: 65_536, lookAgainMs: 20 }

export const help = `Usage: sluice explain [--app-key K] [--origin O] [--json] FILE

Says what would happen to the body in FILE ('-': standard input) if it were sent now: the answer, every offending
member (up to 1,000), and the app's limits with what is left of them. What many events have wrong in the same way is
one line, events[*]; --json has each by itself. Nothing is queued or spent, and a service may be running on the same
settings.

Apps and limits come from where the settings have the service keep them: files in SLUICE_DATA_DIR, or NATS
and Redis where NATS_URL and REDIS_URL are set. The bytes of this minute are known to the running service alone, which is asked as
sluice usage asks it; they are those of the node that answers. While NATS does not give the app records, that service is asked
for all: it goes on with those that it has, and knows its spool.

  --app-key K   put this key in place of the body's app_key
  --origin O    as a web page of this origin would send it, such as https://app.example.com
  --json        for machines

A queue that is full, as far as this command can see it, is the answer too: 503 with its reason.
Other headers are not looked at: a body is taken as sent with the right Content-Type and no Idempotency-Key.
Exit code: 0 it would be accepted, 1 refused, 2 for a wrong command line.

Example:
  sluice explain --app-key ak_demo_2f6c1d body.json
`

export async function run(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags, positionals } = readFlags(
    args,
    { 'app-key': { type: 'string' }, origin: { type: 'string' }, json: { type: 'boolean', default: false } },
    ['FILE'],
  )
  const config = readConfig(shell.env)
  let reading: Promise<Buffer> | null = null
  const body = (): Promise<Buffer> => (reading ??= readBody(positionals[0], shell))
  const { origin = null, 'app-key': key = null } = flags
  const ofStores = withStores(config, shell.clock, async (stores) => {
    const sent = await body()
    const nowMs = await stores.now()
    const verdict = judgeBody(sent, key, nowMs)
    const bytesOf = (app: App): Promise<WindowView | null> => bytesOnNode(config, app)
    return explain({ bodyBytes: sent.length, verdict, nowMs, origin, stores: { ...stores, bytesOf } })
  })
  const ofService = async (): Promise<Explanation> => {
    if (origin !== null) throw new StartError('the running service is not asked with --origin')
    return await askService(config, await body(), key, ANSWER_TIMEOUT_MS)
  }
  const tell = (message: string): Promise<void> => say(shell, `sluice explain: ${message}\n`)
  const explanation = await orService(ofStores, ofService, tell)
  await answer(shell, flags.json, toJson(explanation), () => format(explanation, shell))
  return explanation.outcome === 'accepted' ? EXIT.ok : EXIT.failed
}

/** null: the service cannot be asked. */
async function bytesOnNode(config: Config, { appKey }: App): Promise<WindowView | null> {
  try {
    return (await askService(config, JSON.stringify({ app_key: appKey }), null, BYTES_TIMEOUT_MS)).bytes
  } catch (error) {
    if (error instanceof StartError) return null
    throw error
  }
}

/** Throws a StartError where it does not say it. */
async function askService(
  config: Config,
  body: string | Buffer,
  appKey: string | null,
  timeoutMs: number,
): Promise<Explanation> {
  const query = appKey === null ? '' : `?app_key=${encodeURIComponent(appKey)}`
  const response = await askAdmin(config, `/api/explain${query}`, AbortSignal.timeout(timeoutMs), body)
  const told = answerIn(await textIn(response), Explained)
  const { app, limits } = told
  return {
    status: told.status,
    outcome: told.code as Explanation['outcome'],
    message: told.code === 'accepted' ? null : told.message,
    reason: told.reason as Explanation['reason'],
    retryAfterSeconds: told.retry_after_seconds,
    bodyBytes: told.body_bytes,
    events: told.events,
    violations: told.errors,
    invalidEvents: told.invalid_events,
    app: app && ({ ...app, appId: app.app_id } as Explanation['app']),
    usage: limits && usageIn(limits, ({ ends_at: endsAt }) => endsAt),
    bytes: bytesIn(limits?.bytes),
  }
}

function bytesIn(told: Of<typeof Limit> | undefined): WindowView | null {
  if (told === undefined || told.limit === null || told.remaining === null) return null
  const { limit, remaining, ends_at: endsAt } = told
  const resetSeconds = Math.max(1, Math.ceil((Date.parse(endsAt) - Date.now()) / 1000))
  return { name: 'bytes', limit, remaining, lengthSeconds: 60, resetSeconds }
}

/** Stops once the body is too large. */
async function readBody(file: string, shell: Shell): Promise<Buffer> {
  const pieces: Buffer[] = []
  let bytes = 0
  try {
    const isPipe = file !== '-' && statSync(file, { throwIfNoEntry: false })?.isFIFO() === true
    const stream = isPipe ? readPipe(file) : file === '-' ? shell.stdin : createReadStream(file)
    for await (const piece of stream) {
      pieces.push(Buffer.from(piece))
      bytes += piece.length
      if (bytes > MAX_BODY_BYTES) break
    }
    if (isPipe && bytes === 0) throw new Error('nobody writes to this pipe')
  } catch (error) {
    throw new StartError(`cannot read ${file}: ${errorMessage(error)}`)
  }
  return Buffer.concat(pieces)
}

/** Such as the shell's <(command). Opened in the usual way, one without a writer would wait for it, and could not be given up. */
async function* readPipe(path: string): AsyncGenerator<Buffer> {
  const pipe = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const chunk = Buffer.alloc(PIPE.bytes)
  try {
    for (;;) {
      try {
        const bytes = readSync(pipe, chunk)
        if (bytes === 0) return
        yield chunk.subarray(0, bytes)
      } catch (error) {
        if (errorCode(error) !== 'EAGAIN') throw error
        await sleep(PIPE.lookAgainMs)
      }
    }
  } finally {
    closeSync(pipe)
  }
}

/** What many events have wrong in the same way is one line. */
function folded(violations: readonly string[]): string[] {
  const groups = new Map<string, { text: string; count: number }>()
  for (const violation of violations) {
    const ofAnyEvent = violation.replace(/^events\[\d+\]/, 'events[*]')
    const group = groups.get(ofAnyEvent)
    if (group === undefined) groups.set(ofAnyEvent, { text: violation, count: 1 })
    else {
      group.count += 1
      if (group.text !== violation) group.text = ofAnyEvent
    }
  }
  return [...groups.values()].map(({ text, count }) => (count === 1 ? text : `${text} (${formatCount(count)} times)`))
}

function bytesText({ limit, remaining }: WindowView): string {
  return `${formatBytes(remaining)} left of ${formatBytes(limit)} this minute on the node that answered`
}

export function format(explanation: Explanation, shell: Pick<Shell, 'colour'>): string {
  const { status, outcome, message, retryAfterSeconds, reason, bodyBytes, events, app, usage, bytes } = explanation
  const advice = outcome === 'service_overloaded' ? (ADVICE[reason as OverloadReason] ?? null) : null
  const verdict = paint(outcome === 'accepted' ? 'green' : 'red', `${status} ${outcome}`, shell)
  const about = [
    ['body', bodyBytes === null ? `more than ${formatBytes(MAX_BODY_BYTES)}` : formatBytes(bodyBytes)],
    ...(events === null ? [] : [['events', String(events)]]),
    ...(app === null ? [] : [['app', `${app.appId}, plan ${app.plan}, ${app.subscription}`]]),
    ...(retryAfterSeconds === null ? [] : [['again in', `${formatCount(retryAfterSeconds)} s`]]),
    ...(reason === null ? [] : [['reason', advice === null ? reason : `${reason}: ${advice.happened}`]]),
    ...(advice === null ? [] : [['what to do', advice.todo]]),
    ...(bytes === null ? [] : [['bytes', bytesText(bytes)]]),
  ]
  const sections = [`${verdict}${message === null ? '' : `: ${printable(message)}`}\n${formatTable(about)}`]
  if (explanation.violations.length > 0) {
    const { length } = explanation.violations
    const lines = folded(explanation.violations.map(violationText)).map((line) => `  ${printable(line)}\n`)
    sections.push(
      `Offending members: ${formatCount(length)}${length < MAX_ERRORS_COUNTED ? '' : ' or more'}\n${lines.join('')}`,
    )
  }
  if (app !== null && usage !== null) sections.push(windowsTable(app.plan, usage) + toleranceText(app.plan))
  return sections.join('\n')
}
