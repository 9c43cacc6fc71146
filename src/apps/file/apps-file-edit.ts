// Edits the app file. It is replaced in one step, so that a reader sees the old or the new one.

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
/** Errors of a file system without hard links. */
const NO_LINKS = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'])

/** The file's records in their order. Throws an Error that names the mistakes of a missing or bad file. */
export function readAppRecords(path: string): readonly AppRecord[] {
  return recordsIn(path, readFileText(path))
}

/** Throws an Error that says why it cannot be read. */
export function readFileText(path: string): string {
  const read = readAppsText(path, null)
  if (read.kind === 'text') return read.text
  const mistakes = read.kind === 'mistakes' ? read.mistakes : ['it changed while it was read; try again']
  throw new Error(describeMistakes(path, mistakes))
}

/** `name`: of the file, for the Error that names the mistakes of a bad text. */
export function recordsIn(name: string, text: string): readonly AppRecord[] {
  const parsed = parseAppsText(text)
  const checked =
    'mistake' in parsed ? { kind: 'mistakes' as const, mistakes: [parsed.mistake] } : checkRecords(parsed.document)
  if (checked.kind === 'mistakes') throw new Error(describeMistakes(name, checked.mistakes))
  return checked.records
}

/**
 * Replaces the file: writes a new one beside it, syncs it and renames it over the old one, with its mode and owner.
 * Throws for records that a service would not accept. `confirm`: called just before the rename; where it throws, nothing
 * changes.
 */
export function writeAppRecords(path: string, records: readonly AppRecord[], confirm = (): void => {}): void {
  const text = textOf(path, records)
  const old = statSync(path, { throwIfNoEntry: false }) ?? null
  // A rename onto a symbolic link would replace the link instead of its target.
  const target = old === null ? path : realpathSync(path)
  const folder = dirname(target)
  const temporary = join(folder, `.${basename(target)}.${process.pid}.new`)
  // A crashed process with the same id may have left one.
  rmSync(temporary, { force: true })
  try {
    writeDurably(temporary, text, old)
    confirm()
    renameSync(temporary, target)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
  syncFolder(folder)
}

/**
 * Creates the file if there is none, in one step and without a lock. false: there is one, perhaps just created by
 * another process, and it stays.
 */
export function makeAppsFile(path: string, records: readonly AppRecord[]): boolean {
  const text = textOf(path, records)
  const folder = dirname(path)
  // Not the process id: containers that share the folder may have the same one.
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

/** Throws EEXIST if there is a file. Copies where the file system has no hard links. */
function linkOrCopy(from: string, to: string): void {
  try {
    linkSync(from, to)
  } catch (error) {
    if (!NO_LINKS.has(errorCode(error) ?? '')) throw error
    copyFileSync(from, to, constants.COPYFILE_EXCL)
  }
}

/** Throws for records that a service would not accept. */
function textOf(path: string, records: readonly AppRecord[]): string {
  const checked = checkRecords({ apps: records })
  if (checked.kind === 'mistakes') throw new Error(describeMistakes(path, checked.mistakes))
  const text = `${JSON.stringify({ apps: records }, null, 2)}\n`
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_APPS_FILE_BYTES) throw new Error(describeMistakes(path, [describeTooLarge(bytes)]))
  return text
}

/** Writes and syncs a new file with the mode and owner of `old`. */
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

/** For a first start: one app to try the service with. */
export function demoAppRecords(keySuffix: string): AppRecord[] {
  return [{ app_key: `ak_demo_${keySuffix}`, app_id: 'demo', name: 'Demo', plan: '100k', subscription: 'active' }]
}

/** Only root may change an owner. Without root the new file belongs to this user. */
function keepOwner(file: number, uid: number, gid: number): void {
  const own = fstatSync(file)
  if (own.uid === uid && own.gid === gid) return
  try {
    fchownSync(file, uid, gid)
  } catch (error) {
    if (errorCode(error) !== 'EPERM') throw error
  }
}

/** Makes a rename in this folder durable. */
function syncFolder(folder: string): void {
  const handle = openSync(folder, 'r')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}
