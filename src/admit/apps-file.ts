// The app file: `{"apps": [...]}`, read at start and again whenever it changes; and its editing side, which
// replaces the file in one step, so that a reader sees the old one or the new one.

import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { App, AppStore } from './app.ts'
import { type AppRecord, type ReadApps, readApps } from './app-record.ts'

/** Largest file that is read: some 200,000 apps. */
export const MAX_APPS_FILE_BYTES = 64 * 1024 * 1024
const POLL_MS = 250
const NEW_FILE_MODE = 0o600

export interface AppsFileOptions {
  readonly path: string
  /** How often the file is looked at. */
  readonly pollMs?: number
  /** A changed file is in force now, with so many apps. */
  readonly onReload: (count: number) => void
  /** A changed file cannot be used, and the last good one stays in force. Called once a change. */
  readonly onBadFile: (reasons: readonly string[]) => void
}

export interface AppsFile extends AppStore {
  find(appKey: string): App | 'unknown'
  stop(): void
  /** Changed files that could not be used, since the start. */
  readonly reloadFailures: number
}

/**
 * Reads the file, and looks every `pollMs` whether it has changed. Polling, because it alone works on every file
 * system, through links that are swapped, and when the file goes and comes back. A bad file here throws.
 */
export function openAppsFile({ path, pollMs = POLL_MS, onReload, onBadFile }: AppsFileOptions): AppsFile {
  let identity = identityOf(statOrNull(path))
  const first = readFile(path)
  if (first.kind === 'mistakes') throw new Error(describeMistakes(path, first.mistakes))
  let apps = mapOf(first.apps)
  let reloadFailures = 0
  /** What a bad file looked like when it was first seen: it may be one that is still being written. */
  let suspectIdentity: string | null = null
  let stopped = false
  let timer = schedulePoll()

  function schedulePoll(): NodeJS.Timeout {
    // The next look is set once this one is over, so that no two overlap on a slow disk.
    return setTimeout(async () => {
      await lookAtFile()
      if (!stopped) timer = schedulePoll()
    }, pollMs).unref()
  }

  async function lookAtFile(): Promise<void> {
    const found = identityOf(await stat(path).catch(() => null))
    if (stopped || found === identity) return
    const read = readFile(path)
    if (read.kind === 'apps') {
      identity = found
      suspectIdentity = null
      apps = mapOf(read.apps)
      onReload(apps.size)
    } else if (found === suspectIdentity) {
      identity = found
      reloadFailures++
      onBadFile(read.mistakes)
    } else {
      suspectIdentity = found
    }
  }

  return {
    find: (appKey) => apps.get(appKey) ?? 'unknown',
    all: () => apps.values(),
    stop() {
      stopped = true
      clearTimeout(timer)
    },
    get reloadFailures() {
      return reloadFailures
    },
  }
}

/** The records of a file in their order. A missing or bad file throws an Error that names every mistake. */
export function readAppRecords(path: string): AppRecord[] {
  const read = readFile(path)
  if (read.kind === 'mistakes') throw new Error(describeMistakes(path, read.mistakes))
  return [...read.records]
}

/**
 * Replaces the file by these records, in this order: it is written beside the old one, made durable, and renamed
 * over it. Mode and owner stay as they were. Records that a service would not read are not written: that throws.
 */
export function writeAppRecords(path: string, records: readonly AppRecord[]): void {
  const read = readApps({ apps: records })
  if (read.kind === 'mistakes') throw new Error(describeMistakes(path, read.mistakes))
  const old = statOrNull(path)
  // A rename onto a link would replace the link, and leave the file it points to as it was.
  const target = old === null ? path : realpathSync(path)
  const folder = dirname(target)
  const temporary = join(folder, `.${basename(target)}.${process.pid}.new`)
  // A crash may have left one behind, under the id of a process that is gone.
  rmSync(temporary, { force: true })
  try {
    const file = openSync(temporary, 'wx', NEW_FILE_MODE)
    try {
      writeFileSync(file, `${JSON.stringify({ apps: records }, null, 2)}\n`)
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

function readFile(path: string): ReadApps {
  let text: string
  try {
    // Without O_NONBLOCK the open of a named pipe would wait for its writer, and the whole process with it.
    const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      const found = fstatSync(file)
      if (!found.isFile()) return { kind: 'mistakes', mistakes: ['not a file'] }
      if (found.size > MAX_APPS_FILE_BYTES) {
        return { kind: 'mistakes', mistakes: [`${found.size} bytes, at most ${MAX_APPS_FILE_BYTES} are read`] }
      }
      text = readFileSync(file, 'utf8')
    } finally {
      closeSync(file)
    }
  } catch (error) {
    return { kind: 'mistakes', mistakes: [(error as Error).message] }
  }
  let document: unknown
  try {
    document = JSON.parse(text)
  } catch (error) {
    return { kind: 'mistakes', mistakes: [`not JSON${placeOf(error as Error)}`] }
  }
  return readApps(document)
}

/** Where JSON.parse stopped, where it says so. The rest of its message quotes the file, keys of apps included. */
function placeOf(error: Error): string {
  const place = / at position \d+/.exec(error.message)
  return place === null ? '' : `:${place[0]}`
}

function mapOf(apps: readonly App[]): Map<string, App> {
  return new Map(apps.map((app) => [app.appKey, app]))
}

function describeMistakes(path: string, mistakes: readonly string[]): string {
  return [`the app file ${path} cannot be used:`, ...mistakes.map((mistake) => `  ${mistake}`)].join('\n')
}

/** What changes when a file does: written in place, replaced, reached through another link, or gone. */
function identityOf(found: Stats | null): string {
  return found === null ? 'gone' : `${found.dev}:${found.ino}:${found.size}:${found.mtimeMs}`
}

function statOrNull(path: string): Stats | null {
  return statSync(path, { throwIfNoEntry: false }) ?? null
}

/** Only root may give a file away. Anyone else replaces a file of another by one of their own. */
function keepOwner(file: number, uid: number, gid: number): void {
  const own = fstatSync(file)
  if (own.uid === uid && own.gid === gid) return
  try {
    fchownSync(file, uid, gid)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') throw error
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
