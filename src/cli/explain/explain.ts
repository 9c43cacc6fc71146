// `sluice explain`: says what would happen to a body now. It makes the checks of a request against the stores, but
// queues and charges nothing.

import { createReadStream } from 'node:fs'
import { MAX_BODY_BYTES, MAX_ERRORS_COUNTED } from '../../contract/bounds.ts'
import { OVERLOAD_ADVICE } from '../../contract/overload-advice.ts'
import { type Explanation, explain, judgeBody, toJson, violationText } from '../../inspect/explain.ts'
import { errorMessage, StartError } from '../../lib/errors.ts'
import { readConfig } from '../../settings/config.ts'
import { EXIT, paint, print, readFlags, type Shell } from '../shell.ts'
import { withStores } from '../stores/usage-stores.ts'
import { formatBytes, formatCount, formatTable, jsonFor, printable } from '../table.ts'
import { toleranceText, windowsTable } from '../windows.ts'

export const help = `Usage: sluice explain [--app-key K] [--origin O] [--json] FILE

Says what would happen to the body in FILE ('-': standard input) if it were sent now: the answer, every offending
member (up to 1,000), and the app's limits with what is left of them. What many events have wrong in the same way is
one line, events[*]; --json has each by itself. Nothing is queued or spent, and a service may be running on the same
settings.

Apps and limits come from where the settings have the service keep them: files in SLUICE_DATA_DIR, or NATS
and Redis where NATS_URL and REDIS_URL are set.

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
  const explanation = await withStores(readConfig(shell.env), shell.clock, async (stores) => {
    const sent = await readBody(positionals[0], shell)
    const nowMs = await stores.now()
    const key = flags['app-key']
    const verdict = judgeBody(sent, key ?? null, nowMs)
    return explain({ bodyBytes: sent.length, verdict, nowMs, origin: flags.origin ?? null, stores })
  })
  await print(
    shell.stdout,
    flags.json ? jsonFor(shell, `${JSON.stringify(toJson(explanation), null, 2)}\n`) : format(explanation, shell),
  )
  return explanation.outcome === 'accepted' ? EXIT.ok : EXIT.failed
}

/** Stops once the body is too large. */
async function readBody(file: string, shell: Shell): Promise<Buffer> {
  const stream = file === '-' ? shell.stdin : createReadStream(file)
  const pieces: Buffer[] = []
  let bytes = 0
  try {
    for await (const piece of stream) {
      pieces.push(Buffer.from(piece))
      bytes += piece.length
      if (bytes > MAX_BODY_BYTES) break
    }
  } catch (error) {
    throw new StartError(`cannot read ${file}: ${errorMessage(error)}`)
  }
  return Buffer.concat(pieces)
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

export function format(explanation: Explanation, shell: Pick<Shell, 'colour'>): string {
  const { status, outcome, message, retryAfterSeconds, reason, bodyBytes, events, app, usage } = explanation
  const verdict = paint(outcome === 'accepted' ? 'green' : 'red', `${status} ${outcome}`, shell)
  const about = [
    ['body', bodyBytes === null ? `more than ${formatBytes(MAX_BODY_BYTES)}` : formatBytes(bodyBytes)],
    ...(events === null ? [] : [['events', String(events)]]),
    ...(app === null ? [] : [['app', `${app.appId}, plan ${app.plan}, ${app.subscription}`]]),
    ...(retryAfterSeconds === null ? [] : [['again in', `${formatCount(retryAfterSeconds)} s`]]),
    ...(reason === null ? [] : [['reason', `${reason}: ${OVERLOAD_ADVICE[reason].happened}`]]),
    ...(reason === null ? [] : [['what to do', OVERLOAD_ADVICE[reason].todo]]),
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
