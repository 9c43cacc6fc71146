// The editing side of the app file: replaces it in one step, so that a reader sees the old one or the new one.

import { randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  copyFileSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  linkSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { errorCode } from '../../lib/errors.ts'
import { type AppRecord, checkRecords } from '../app-record.ts'
import { describeMistakes, describeTooLarge, MAX_APPS_FILE_BYTES, parseAppsText, readAppsText } from './apps-text.ts'

const NEW_FILE_MODE = 0o600
/** How a file system says that it has no links. */
const NO_LINKS = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'])

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
  const text = textOf(path, records)
  const old = statSync(path, { throwIfNoEntry: false }) ?? null
  // A rename onto a link would replace the link, and leave the file it points to as it was.
  const target = old === null ? path : realpathSync(path)
  const folder = dirname(target)
  const temporary = join(folder, `.${basename(target)}.${process.pid}.new`)
  // A crash may have left one behind, under the id of a process that is gone.
  rmSync(temporary, { force: true })
  try {
    writeDurably(temporary, text, old)
    renameSync(temporary, target)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
  syncFolder(folder)
}

/**
 * Makes the file, whole, where there is none, and needs no lock for it. Gives whether it did: another process may have
 * made one first, and that one stays.
 */
export function makeAppsFile(path: string, records: readonly AppRecord[]): boolean {
  const text = textOf(path, records)
  const folder = dirname(path)
  // Process ids are not enough: containers that share the folder may have the same ones.
  const temporary = join(folder, `.${basename(path)}.${randomBytes(6).toString('hex')}.new`)
  try {
    writeDurably(temporary, text, null)
    linkOrCopy(temporary, path)
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false
    throw error
  } finally {
    rmSync(temporary, { force: true })
  }
  syncFolder(folder)
  return true
}

/** Onto no file that is there: then it throws EEXIST. Some file systems have no links. */
function linkOrCopy(from: string, to: string): void {
  try {
    linkSync(from, to)
  } catch (error) {
    if (!NO_LINKS.has(errorCode(error) ?? '')) throw error
    copyFileSync(from, to, constants.COPYFILE_EXCL)
  }
}

/** Records that a service would not read throw. */
function textOf(path: string, records: readonly AppRecord[]): string {
  const checked = checkRecords({ apps: records })
  if (checked.kind === 'mistakes') throw new Error(describeMistakes(path, checked.mistakes))
  const text = `${JSON.stringify({ apps: records }, null, 2)}\n`
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_APPS_FILE_BYTES) throw new Error(describeMistakes(path, [describeTooLarge(bytes)]))
  return text
}

/** A new file, with the mode and owner of the one that it will replace. */
function writeDurably(path: string, text: string, old: Stats | null): void {
  const file = openSync(path, 'wx', NEW_FILE_MODE)
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

/** Makes the name of a file in it durable. */
function syncFolder(folder: string): void {
  const handle = openSync(folder, 'r')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}
