// `sluice spool`: what the spool of a node holds, whether it is whole, and how to send it where its node is gone.

import { existsSync, readdirSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { errorMessage, StartError } from '../../lib/errors.ts'
import { formatSpan } from '../../lib/format.ts'
import { isLocked } from '../../lib/lock.ts'
import { inspectSpool, type SpoolInspection, spoolFolders } from '../../queue/spool/inspect-spool.ts'
import { contentsText } from '../../queue/spool/open-spool.ts'
import { readConfig } from '../../settings/config.ts'
import { drainSpool } from '../../start/drain-spool.ts'
import { EXIT, print, readFlags, type Shell, say, UsageError, untilInterrupted } from '../shell.ts'
import { answer, formatCount, formatTable, printable } from '../table.ts'
import { spoolPart, verifyParts } from '../verified-parts.ts'

const LEAVE_MS = 10_000
const ACTIONS = ['list', 'verify', 'drain'] as const

export const help = `Usage: sluice spool list DIR [--json]
       sluice spool verify DIR [--json]
       sluice spool drain DIR

A spool is the folder (SLUICE_SPOOL_DIR) in which a node keeps on its own disk what NATS does not take. The node that works in it
sends it by itself, and so does the next one that is started with this folder. With several worker processes, each has a folder
in it: DIR/worker-1 and so on.

  list     what it holds that is not in NATS yet, by app. Reads only, also while a node works in the folder
  verify   reads all of it, and says what is damaged, where, and whose events it was, as sluice verify does. Reads only
  drain    sends what it holds to NATS, where the node of the folder is gone; wants REDIS_URL and NATS_URL as for the service. It
           ends when NATS has synced it all: up to four minutes after the last batch where it is not known that NATS syncs always

  --json   for machines

Exit code: 0 done, 1 damaged, not all sent or not to be read, 2 for a wrong command line.

Example:
  sluice spool drain /var/lib/sluice/spool
`

export async function run(args: readonly string[], shell: Shell): Promise<number> {
  const [action, ...rest] = args
  if (!ACTIONS.some((known) => known === action)) throw new UsageError(`say ${ACTIONS.join(', ')}, and the folder`)
  const { values, positionals } = readFlags(rest, { json: { type: 'boolean', default: false } }, ['DIR'])
  if (values.json && action === 'drain') throw new UsageError('--json is for list and verify')
  const directory = resolve(positionals[0])
  // A volume whose node never started. A wrong path leads to a folder that holds other things, or to none.
  if (action === 'drain' && !existsSync(directory) && isEmptyVolume(dirname(directory))) {
    await print(shell.stdout, `${printable(directory)}: no node has written here, and nothing is to be sent\n`)
    return EXIT.ok
  }
  if (!isFolder(directory)) throw new StartError(`${directory} is not a folder`)
  if (action === 'verify') {
    const folders = await spoolFolders(directory)
    return await verifyParts((folders.length === 0 ? [directory] : folders).map(spoolPart), values.json, shell)
  }
  const inspection = await inspectSpool(directory)
  return action === 'drain'
    ? await drain(directory, inspection, shell)
    : await list(directory, inspection, values.json, shell)
}

async function list(directory: string, inspection: SpoolInspection, json: boolean, shell: Shell): Promise<number> {
  const { unsent, apps, keptBatches, isDamaged } = inspection
  const inUse = await isLocked(directory)
  const page = {
    batches: unsent.batches,
    bytes: unsent.bytes,
    oldest_at: unsent.oldestAtMs === null ? null : new Date(unsent.oldestAtMs).toISOString(),
    kept_batches: keptBatches,
    in_use: inUse,
    damaged: isDamaged,
    apps: [...apps].map(([app_id, { batches, events }]) => ({ app_id, batches, events })),
  }
  await answer(shell, json, page, () => {
    const rows = page.apps.toSorted((one, other) => other.events - one.events)
    const table = rows.map(({ app_id: app, batches, events }) => [app, formatCount(batches), formatCount(events)])
    const held = keptBatches > 0 && unsent.batches === 0 ? 'nothing left to send' : contentsText(unsent)
    const kept = keptBatches === 0 ? '' : `; ${formatCount(keptBatches)} sent and kept until NATS has synced them`
    const toStart = unsent.batches + keptBatches > 0 ? ': start one with this folder, or sluice spool drain' : ''
    const node = inUse ? 'A node works in it, and sends it when NATS takes it.' : `No node works in it${toStart}.`
    const damaged = isDamaged ? 'Some of it is damaged: sluice spool verify says what.\n' : ''
    const byApp = table.length === 0 ? '' : formatTable([['app', 'batches', 'events'], ...table])
    return `${printable(directory)}: ${held}${kept}\n${node}\n${damaged}${byApp}`
  })
  return EXIT.ok
}

async function drain(directory: string, { isDamaged }: SpoolInspection, shell: Shell): Promise<number> {
  const config = readConfig(shell.env)
  const tell = (message: string): void => void say(shell, `sluice spool: ${message}\n`)
  const left = await untilInterrupted(
    (signal) =>
      drainSpool(config, {
        directory,
        signal,
        onNotice: tell,
        onProgress: (contents) => tell(`left: ${contentsText(contents)}`),
        onSent: (waitMs) =>
          tell(
            `all is sent; waiting until NATS has synced it${waitMs === 0 ? '' : `: for ${formatSpan(waitMs)} or so`}`,
          ),
      }),
    { leaveMs: LEAVE_MS },
  )
  if (left?.isEmpty !== true) {
    const kept = left?.contents.batches === 0 ? 'all is sent, and kept until NATS has synced it' : null
    const why = left === null ? 'interrupted' : (kept ?? `left: ${contentsText(left.contents)}`)
    await print(shell.stdout, `${printable(directory)}: ${why}; nothing is lost\n`)
    return EXIT.failed
  }
  const all = isDamaged
    ? 'all that is whole is sent; what is missing or damaged (sluice spool verify) is not, and is kept in damaged/ as far as it is there: remove it when it is not wanted'
    : 'all is sent, and nothing is left in it'
  await print(shell.stdout, `${printable(directory)}: ${all}\n`)
  return isDamaged ? EXIT.failed : EXIT.ok
}

function isEmptyVolume(folder: string): boolean {
  return existsSync(folder) && readdirSync(folder).every((name) => name === 'lost+found')
}

function isFolder(directory: string): boolean {
  try {
    return statSync(directory).isDirectory()
  } catch (error) {
    throw new StartError(`${directory} cannot be read: ${errorMessage(error)}`)
  }
}
