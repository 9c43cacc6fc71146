// `sluice apps export` and `import`: all records as one JSON file, to move them or back them up.

import { text } from 'node:stream/consumers'
import type { AppRecord } from '../../apps/app-record.ts'
import { readFileText, recordsIn, writeAppRecords } from '../../apps/file/apps-file-edit.ts'
import { describeMistakes } from '../../apps/file/apps-text.ts'
import { orStartError, StartError } from '../../lib/errors.ts'
import { checked } from '../../records/app-draft.ts'
import type { AppRecords } from '../../records/app-records.ts'
import { repeatedMembers } from '../../records/repeated-members.ts'
import { EXIT, print, type Shell, say } from '../shell.ts'
import { answer, counted } from '../table.ts'

const MAX_IDS_NAMED = 20

/** Exit code 1 where invalid records were left out. */
export async function exportApps(stored: AppRecords, file: string, shell: Shell): Promise<number> {
  const { records, complaints } = await stored.list()
  for (const complaint of complaints) await say(shell, `sluice apps: ${complaint}\n`)
  if (file === '-') await answer(shell, true, { apps: records }, String)
  else {
    orStartError(() => writeAppRecords(file, records), `cannot write ${file}: `)
    await say(shell, `wrote ${counted(records.length, 'app record')} to ${file}\n`)
  }
  return complaints.length === 0 ? EXIT.ok : EXIT.failed
}

export interface Import {
  readonly file: string
  /** Records that the file does not have are removed. */
  readonly replaceAll: boolean
  /** Nothing is written. */
  readonly dryRun: boolean
}

export async function importApps(
  stored: AppRecords,
  { file, replaceAll, dryRun }: Import,
  shell: Shell,
): Promise<number> {
  const name = file === '-' ? 'on stdin' : file
  const json = file === '-' ? await text(shell.stdin) : orStartError(() => readFileText(file))
  const given = orStartError(() => recordsIn(name, json))
  const repeats = repeatedMembers(json)
  if (repeats.length > 0) throw new StartError(describeMistakes(name, repeats))
  let summary = ''
  const change = (present: readonly AppRecord[]): readonly AppRecord[] => {
    const wanted = checked(replaceAll ? given : merged(present, given), [...present, ...given])
    summary = describeChange(present, wanted)
    return wanted
  }
  // The summary is made inside the edit, since only the edit knows the records that it replaces.
  if (dryRun) change((await stored.list()).records)
  else {
    await stored.edit(change, { replaceBad: true })
    await stored.adopt()
  }
  // The answer of a dry run is what was asked for; that of an import says what was done.
  const [stream, verb] = dryRun ? [shell.stdout, 'would change'] : [shell.stderr, 'changed']
  await print(stream, `${verb} ${stored.place}:\n${summary}`)
  return EXIT.ok
}

/** Keeps the order of the present records; new ones come last. */
function merged(present: readonly AppRecord[], given: readonly AppRecord[]): AppRecord[] {
  const left = new Map(given.map((record) => [record.app_id, record]))
  const replaced = present.map((record) => {
    const found = left.get(record.app_id)
    left.delete(record.app_id)
    return found ?? record
  })
  return [...replaced, ...left.values()]
}

function describeChange(present: readonly AppRecord[], wanted: readonly AppRecord[]): string {
  const before = new Map(present.map((record) => [record.app_id, JSON.stringify(record)]))
  const after = new Map(wanted.map((record) => [record.app_id, JSON.stringify(record)]))
  const ids = [...after.keys()]
  const added = ids.filter((id) => !before.has(id))
  const replaced = ids.filter((id) => before.has(id) && before.get(id) !== after.get(id))
  const removed = [...before.keys()].filter((id) => !after.has(id))
  const same = ids.length - added.length - replaced.length
  return `${line('added', added)}${line('replaced', replaced)}${line('removed', removed)}  ${same} unchanged\n`
}

function line(what: string, ids: readonly string[]): string {
  if (ids.length === 0) return `  0 ${what}\n`
  const more = ids.length > MAX_IDS_NAMED ? ', …' : ''
  return `  ${ids.length} ${what}: ${ids.slice(0, MAX_IDS_NAMED).join(', ')}${more}\n`
}
