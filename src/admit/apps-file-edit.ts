// The editing side of the app file: replaces it in one step, so that a reader sees the old one or the new one.

import {
  closeSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { errorCode } from '../lib/errors.ts'
import { type AppRecord, checkRecords } from './app-record.ts'
import { describeMistakes, describeTooLarge, MAX_APPS_FILE_BYTES, parseAppsText, readAppsText } from './apps-text.ts'

const NEW_FILE_MODE = 0o600

/** The records of a file in their order. A missing or bad file throws an Error that names its mistakes. */
export function readAppRecords(path: string): readonly AppRecord[] {
  const mistakesFound = (mistakes: readonly string[]) => new Error(describeMistakes(path, mistakes))
  const read = readAppsText(path, null)
  if (read.kind === 'mistakes') throw mistakesFound(read.mistakes)
  if (read.kind !== 'text') throw mistakesFound(['it changed while it was read; try again'])
  const parsed = parseAppsText(read.text)
  if ('mistake' in parsed) throw mistakesFound([parsed.mistake])
  const checked = checkRecords(parsed.document)
  if (checked.kind === 'mistakes') throw mistakesFound(checked.mistakes)
  return checked.records
}

/**
 * Replaces the file by these records, in this order: it is written beside the old one, made durable, and renamed
 * over it. Mode and owner stay as they were. Records that a service would not read are not written: that throws.
 */
export function writeAppRecords(path: string, records: readonly AppRecord[]): void {
  const checked = checkRecords({ apps: records })
  if (checked.kind === 'mistakes') throw new Error(describeMistakes(path, checked.mistakes))
  const text = `${JSON.stringify({ apps: records }, null, 2)}\n`
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_APPS_FILE_BYTES) throw new Error(describeMistakes(path, [describeTooLarge(bytes)]))
  const old = statSync(path, { throwIfNoEntry: false }) ?? null
  // A rename onto a link would replace the link, and leave the file it points to as it was.
  const target = old === null ? path : realpathSync(path)
  const folder = dirname(target)
  const temporary = join(folder, `.${basename(target)}.${process.pid}.new`)
  // A crash may have left one behind, under the id of a process that is gone.
  rmSync(temporary, { force: true })
  try {
    const file = openSync(temporary, 'wx', NEW_FILE_MODE)
    try {
      writeFileSync(file, text)
      if (old !== null) {
        keepOwner(file, old.uid, old.gid)
        fchmodSync(file, old.mode & 0o7777)
      }
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    renameSync(temporary, target)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
  syncFolder(folder)
}

/** What a first start writes, so that there is something to try: one app, whose key ends in `keySuffix`. */
export function demoAppRecords(keySuffix: string): AppRecord[] {
  return [{ app_key: `ak_demo_${keySuffix}`, app_id: 'demo', name: 'Demo', plan: '100k', subscription: 'active' }]
}

/** Only root may give a file away. Anyone else replaces a file of another by one of their own. */
function keepOwner(file: number, uid: number, gid: number): void {
  const own = fstatSync(file)
  if (own.uid === uid && own.gid === gid) return
  try {
    fchownSync(file, uid, gid)
  } catch (error) {
    if (errorCode(error) !== 'EPERM') throw error
  }
}

/** Makes the rename durable. */
function syncFolder(folder: string): void {
  const handle = openSync(folder, 'r')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}
