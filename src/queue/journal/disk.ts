// What the journal and its snapshots ask of the disk. The simulator has a disk of its own.

import { close, constants, fdatasync, fstatSync, openSync, write, writev } from 'node:fs'
import { readdir, rename, stat, unlink } from 'node:fs/promises'
import { makeFolder, syncFolder } from '../../lib/folder.ts'
import { openNew } from '../../lib/new-file.ts'
import { openRegular } from '../../lib/regular-file.ts'

/** The code of the error of a write for which there is no room. */
export const DISK_FULL = 'ENOSPC'
/** Of all writes for which there is none: on the disk, by a quota, or by a limit on files. What was stored before is safe. */
export const NO_ROOM: readonly string[] = [DISK_FULL, 'EDQUOT', 'EFBIG']

/**
 * With O_DSYNC a write returns once it is on disk. Compared with a write and an fdatasync it saves one trip through the
 * thread pool, a quarter of a small commit's CPU time. Used on Linux only; elsewhere a commit ends with fdatasync,
 * which on macOS also flushes the drive's cache.
 */
export const WRITES_ARE_SYNCED = process.platform === 'linux'
const SYNCED_APPEND =
  constants.O_WRONLY | constants.O_APPEND | constants.O_NOFOLLOW | (WRITES_ARE_SYNCED ? constants.O_DSYNC : 0)

/**
 * No mode that writes follows a link. replace: for what is written anew, whether or not it is there. append, create: each write
 * is synced. note: appends to what may not be there yet, and is synced by `sync` alone. beside: reads, beside a segment. Where
 * another program's folder or pipe has the name, the error's code is NO_REGULAR_FILE, and nothing waits for it.
 */
export type OpenMode = 'read' | 'change' | 'replace' | 'append' | 'create' | 'beside' | 'note'
const FLAGS: Readonly<Record<Exclude<OpenMode, 'replace'>, number>> = {
  read: constants.O_RDONLY,
  change: constants.O_RDWR | constants.O_NOFOLLOW,
  append: SYNCED_APPEND,
  create: SYNCED_APPEND | constants.O_CREAT | constants.O_EXCL,
  beside: constants.O_RDONLY,
  note: constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW,
}
const DIRECT = constants.O_WRONLY | constants.O_APPEND | constants.O_DSYNC | constants.O_DIRECT | constants.O_NONBLOCK

/** An open file. A `FileHandle` is one. */
export interface DiskFile {
  readonly fd: number
  read(into: Buffer, at: number, length: number, position: number): Promise<{ readonly bytesRead: number }>
  writeFile(text: string): Promise<void>
  stat(): Promise<{ readonly size: number; readonly mtimeMs: number }>
  truncate(bytes: number): Promise<void>
  sync(): Promise<void>
  close(): Promise<void>
}

/** A segment that is also open for direct writes. */
export interface DirectFile {
  /** Appends and syncs `bytes`, which `done` says are free again, with the number of durable bytes. */
  append(bytes: Uint8Array, done: (error: Error | null, bytes: number) => void): void
  close(): void
}

export interface Disk {
  open(path: string, mode: OpenMode): Promise<DiskFile>
  /** Appends and syncs. `done` gets the number of durable bytes; fewer than given is a failure. */
  append(file: DiskFile, lines: readonly Uint8Array[], done: (error: Error | null, bytes: number) => void): void
  /** Opens the file of `file` for direct writes too. null: it cannot be. Throws where the file system has none. */
  openDirectly(path: string, file: DiskFile): DirectFile | null
  /** At once: it asks no disk. */
  status(file: DiskFile): { readonly size: number; readonly nlink: number }
  names(folder: string): Promise<string[]>
  /** null: there is no file of this name. */
  size(path: string): Promise<number | null>
  rename(from: string, to: string): Promise<void>
  unlink(path: string): Promise<void>
  makeFolder(path: string): Promise<void>
  /** Makes the names in it durable. */
  syncFolder(path: string): Promise<void>
}

function isSameFile(one: number, other: number): boolean {
  try {
    const [first, second] = [fstatSync(one), fstatSync(other)]
    return first.ino === second.ino && first.dev === second.dev
  } catch {
    return false
  }
}

/** Opens the file of `file` a second time. null: another file has its name by now. Throws where the disk fails. */
function openDirectFile(path: string, file: DiskFile): DirectFile | null {
  const fd = openSync(path, DIRECT)
  const end = (): void => close(fd, () => {})
  if (!isSameFile(fd, file.fd)) {
    end()
    return null
  }
  return { append: (bytes, done) => write(fd, bytes, 0, bytes.length, null, done), close: end }
}

export class RealDisk implements Disk {
  readonly #fileMode: number

  constructor(fileMode = 0o640) {
    this.#fileMode = fileMode
  }

  open(path: string, mode: OpenMode): Promise<DiskFile> {
    return mode === 'replace' ? openNew(path, this.#fileMode) : openRegular(path, FLAGS[mode], this.#fileMode)
  }

  append({ fd }: DiskFile, lines: readonly Uint8Array[], done: (error: Error | null, bytes: number) => void): void {
    writev(fd, lines, (error, bytes) => {
      if (error !== null || WRITES_ARE_SYNCED) done(error, bytes)
      else fdatasync(fd, (syncError) => done(syncError, bytes))
    })
  }

  openDirectly(path: string, file: DiskFile): DirectFile | null {
    return openDirectFile(path, file)
  }

  status({ fd }: DiskFile): { readonly size: number; readonly nlink: number } {
    return fstatSync(fd)
  }

  names(folder: string): Promise<string[]> {
    return readdir(folder)
  }

  async size(path: string): Promise<number | null> {
    const status = await stat(path).catch(() => null)
    return status?.isFile() === true ? status.size : null
  }

  rename(from: string, to: string): Promise<void> {
    return rename(from, to)
  }

  unlink(path: string): Promise<void> {
    return unlink(path)
  }

  makeFolder(path: string): Promise<void> {
    // Whoever may read its files may list them.
    return makeFolder(path, this.#fileMode | ((this.#fileMode & 0o444) >> 2))
  }

  syncFolder(path: string): Promise<void> {
    return syncFolder(path)
  }
}

export const realDisk: Disk = new RealDisk()
