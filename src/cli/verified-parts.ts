// Reads parts of what is stored with a bar on a terminal, and prints what is wrong in them: for `sluice verify` and `sluice spool verify`.

import { type AppShare, type Problem, type Progress, Verification } from '../inspect/verify/verification.ts'
import { type VerifyOptions, verifySpool } from '../inspect/verify/verify-journal.ts'
import { journalDirectory } from '../queue/journal/segments.ts'
import { EXIT, paint, print, type Shell, say, showProgress, untilInterrupted } from './shell.ts'
import { counted, formatBytes, formatCount, jsonFor, printable } from './table.ts'

const BAR_MS = 200
const BAR_WIDTH = 30
/** How long an interrupted command waits for the queue. */
const LEAVE_MS = 1500

/** Of what is stored. */
export interface Part {
  readonly where: string
  readonly read: (found: Verification, options: VerifyOptions) => Promise<void>
}

export function spoolPart(directory: string): Part {
  return { where: journalDirectory(directory), read: (found, options) => verifySpool(directory, found, options) }
}

export async function verifyParts(parts: readonly Part[], asJson: boolean, shell: Shell): Promise<number> {
  const found = new Verification()
  const bar = barOn(shell)
  const isWhole = await untilInterrupted(
    async (signal) => {
      for (const { read } of parts) if (!signal.aborted) await read(found, { signal, onProgress: bar.show })
      return !signal.aborted
    },
    { leaveMs: LEAVE_MS },
  )
  bar.clear()
  const where = parts.map((part) => part.where).join(' and ')
  const text = asJson ? jsonOf(found, where, isWhole === true) : textOf(found, where, shell)
  await print(shell.stdout, asJson ? jsonFor(shell, text) : text)
  if (isWhole !== true) await say(shell, 'interrupted: the rest was not read\n')
  return isWhole === true && found.problemCount === 0 ? EXIT.ok : EXIT.failed
}

/** On a terminal alone. */
function barOn(shell: Shell) {
  let shownAtMs = Number.NEGATIVE_INFINITY
  const show = ({ done, total }: Progress): void => {
    if (!shell.interactive || performance.now() - shownAtMs < BAR_MS) return
    shownAtMs = performance.now()
    const share = total === 0 ? 1 : done / total
    const full = Math.floor(share * BAR_WIDTH)
    const percent = String(Math.floor(share * 100)).padStart(3)
    showProgress(shell, `[${'#'.repeat(full)}${' '.repeat(BAR_WIDTH - full)}] ${percent}%`)
  }
  const clear = (): void => {
    if (shownAtMs > 0) showProgress(shell, `${' '.repeat(BAR_WIDTH + 8)}\r`)
  }
  return { show, clear }
}

function textOf(found: Verification, where: string, shell: Shell): string {
  const { records, events, bytes, uncheckedBytes, problems, problemCount } = found
  const read = `read ${printable(where)}: ${counted(records, 'record')}, ${counted(events, 'event')}, ${formatBytes(bytes)}`
  const unchecked = uncheckedBytes === 0 ? '' : `, of which ${formatBytes(uncheckedBytes)} have no checksum`
  const forgotten = found.hasForgottenIds ? 'So many keys were used that ids were compared over less than 600 s.\n' : ''
  const verdict =
    problemCount === 0
      ? paint('green', 'All is well.', shell)
      : paint('red', `${counted(problemCount, 'problem')}:`, shell)
  const more = problemCount - problems.length
  const rest = more > 0 ? `and ${formatCount(more)} more\n` : ''
  return `${read}${unchecked}\n${forgotten}${verdict}\n${problems.map(problemText).join('')}${rest}`
}

function problemText({ where, at, detail, apps }: Problem): string {
  const place = at === null ? where : `${where} at ${at}`
  const whose = apps.length === 0 ? '' : `\n    whose: ${apps.map(shareText).join(', ')}`
  return `${printable(`  ${place}: ${detail}`)}${whose}\n`
}

function shareText({ appId, batches, events }: AppShare): string {
  return `app ${printable(appId)} (${counted(batches, 'batch', 'batches')}, ${counted(events, 'event')} that can be read)`
}

function jsonOf(found: Verification, where: string, isWhole: boolean): string {
  const { records, events, bytes, uncheckedBytes, problems, problemCount, hasForgottenIds } = found
  return `${JSON.stringify({
    read: where,
    complete: isWhole,
    records,
    events,
    bytes,
    unchecked_bytes: uncheckedBytes,
    ids_compared_over_600_s: !hasForgottenIds,
    problems_total: problemCount,
    problems: problems.map(({ kind, where: place, at, detail, apps }) => ({
      kind,
      where: place,
      at,
      detail,
      apps: apps.map(({ appId, batches, events: readable }) => ({ app_id: appId, batches, events: readable })),
    })),
  })}\n`
}
