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

/** Of a node, or of one of its worker processes. */
interface Spool extends SpoolInspection {
  readonly folder: string
  readonly inUse: boolean
}

interface AppPage {
  readonly app_id: string
  readonly batches: number
  readonly events: number
}

export const help = `Usage: sluice spool list DIR [--json]
       sluice spool verify DIR [--json]
       sluice spool drain DIR

A spool is the folder (SLUICE_SPOOL_DIR) in which a node keeps on its own disk what NATS does not take. The node that works in it
sends it by itself, and so does the next one that is started with this folder. With several worker processes, each has a folder
in it, DIR/worker-1 and so on: they are listed, read and sent with it, also where the node has fewer processes now.

  list     what it holds that is not in NATS yet, by app. Reads only, also while a node works in the folder
  verify   reads all of it, and says what is damaged, where, and whose events it was, as sluice verify does. Reads only
  drain    sends what it holds to NATS, where the node of the folder is gone; wants REDIS_URL and NATS_URL as for the service. It
           ends when NATS has synced it all: up to four minutes after the last batch of each folder where it is not known that NATS syncs always

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
  const found = await spoolFolders(directory)
  const folders = found.length === 0 ? [directory] : found
  if (action === 'verify') return await verifyParts(folders.map(spoolPart), values.json, shell)
  const spools: Spool[] = []
  for (const folder of folders) spools.push({ folder, inUse: await isLocked(folder), ...(await inspectSpool(folder)) })
  return action === 'drain' ? await drainAll(spools, shell) : await list(spools, values.json, shell)
}

async function list(spools: readonly Spool[], json: boolean, shell: Shell): Promise<number> {
  const pages = spools.map(pageOf)
  const apps = new Map<string, AppPage>()
  for (const { app_id, batches, events } of pages.flatMap((page) => page.apps)) {
    const app = apps.get(app_id) ?? { app_id, batches: 0, events: 0 }
    apps.set(app_id, { app_id, batches: app.batches + batches, events: app.events + events })
  }
  const page = {
    batches: sumOf(pages, 'batches'),
    bytes: sumOf(pages, 'bytes'),
    oldest_at: pages.flatMap(({ oldest_at: at }) => at ?? []).sort()[0] ?? null,
    kept_batches: sumOf(pages, 'kept_batches'),
    in_use: pages.some(({ in_use: inUse }) => inUse),
    damaged: pages.some(({ damaged }) => damaged),
    apps: [...apps.values()],
    folders: pages,
  }
  await answer(shell, json, page, () => spools.map(textOf).join(''))
  return EXIT.ok
}

function sumOf<K extends string>(pages: readonly Readonly<Record<K, number>>[], member: K): number {
  return pages.reduce((sum, page) => sum + page[member], 0)
}

function pageOf({ folder, inUse, unsent, apps, keptBatches, isDamaged }: Spool) {
  return {
    folder,
    batches: unsent.batches,
    bytes: unsent.bytes,
    oldest_at: unsent.oldestAtMs === null ? null : new Date(unsent.oldestAtMs).toISOString(),
    kept_batches: keptBatches,
    in_use: inUse,
    damaged: isDamaged,
    apps: [...apps].map(([app_id, { batches, events }]): AppPage => ({ app_id, batches, events })),
  }
}

function textOf({ folder, inUse, unsent, apps, keptBatches, isDamaged }: Spool): string {
  const rows = [...apps].toSorted(([, one], [, other]) => other.events - one.events)
  const table = rows.map(([app, { batches, events }]) => [app, formatCount(batches), formatCount(events)])
  const held = keptBatches > 0 && unsent.batches === 0 ? 'nothing left to send' : contentsText(unsent)
  const kept = keptBatches === 0 ? '' : `; ${formatCount(keptBatches)} sent and kept until NATS has synced them`
  const toStart = unsent.batches + keptBatches > 0 ? ': start one with this folder, or sluice spool drain' : ''
  const node = inUse ? 'A node works in it, and sends it when NATS takes it.' : `No node works in it${toStart}.`
  const damaged = isDamaged ? 'Some of it is damaged or missing: sluice spool verify says what.\n' : ''
  const byApp = table.length === 0 ? '' : formatTable([['app', 'batches', 'events'], ...table])
  return `${printable(folder)}: ${held}${kept}\n${node}\n${damaged}${byApp}`
}

/** One after the other. Where a node works in some of them, it sends these. */
async function drainAll(spools: readonly Spool[], shell: Shell): Promise<number> {
  const busy = spools.filter(({ inUse }) => inUse)
  const isAlone = busy.length < spools.length
  // The folder itself comes last: that all of it is sent is to be said where that of the workers is.
  for (const spool of (isAlone ? spools.filter(({ inUse }) => !inUse) : spools).toReversed())
    if (!(await drain(spool, shell))) return EXIT.failed
  for (const { folder } of busy)
    await print(shell.stdout, `${printable(folder)}: in use: the process that works in it sends it itself\n`)
  const isAll = spools.every(({ inUse, unsent, isDamaged }) => !isDamaged && !(inUse && unsent.batches > 0))
  return isAll ? EXIT.ok : EXIT.failed
}

/** false: it was interrupted. */
async function drain({ folder, isDamaged }: Spool, shell: Shell): Promise<boolean> {
  const config = readConfig(shell.env)
  const tell = (message: string): void => void say(shell, `sluice spool: ${message}\n`)
  const left = await untilInterrupted(
    (signal) =>
      drainSpool(config, {
        directory: folder,
        signal,
        onNotice: tell,
        onProgress: (contents) => tell(`${folder}: left: ${contentsText(contents)}`),
        onSent: (waitMs) =>
          tell(
            `${folder}: all is sent; waiting until NATS has synced it${waitMs === 0 ? '' : `: for ${formatSpan(waitMs)} or so`}`,
          ),
      }),
    { leaveMs: LEAVE_MS },
  )
  if (left?.isEmpty !== true) {
    const kept = left?.contents.batches === 0 ? 'all is sent, and kept until NATS has synced it' : null
    const why = left === null ? 'interrupted' : (kept ?? `left: ${contentsText(left.contents)}`)
    await print(shell.stdout, `${printable(folder)}: ${why}; nothing is lost\n`)
    return false
  }
  const all = isDamaged
    ? 'all that is whole is sent; what is missing or damaged (sluice spool verify) is not, and is kept in damaged/ as far as it is there: remove it when it is not wanted'
    : 'all is sent, and nothing is left in it'
  await print(shell.stdout, `${printable(folder)}: ${all}\n`)
  return true
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
