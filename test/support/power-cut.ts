// A disk that loses what was not synced. It stands before Node's file functions, remembers what each sync made durable,
// and builds the folder that a power cut would leave: files as they were last synced, under the names last synced.

import type * as Files from 'node:fs'
import type * as Promised from 'node:fs/promises'
import { join } from 'node:path'

// A test puts `watched` in the place of these modules, so they are not imported here.
const fs = process.getBuiltinModule('node:fs')

type Done = (error: NodeJS.ErrnoException | null, bytes: number, buffer: never) => void

interface Entry {
  readonly inode: number
  readonly isFolder: boolean
}

export class PowerCutDisk {
  /** The synced bytes of each file, by inode. */
  readonly #contents = new Map<number, Buffer>()
  /** The synced names in each folder, by its inode. */
  readonly #names = new Map<number, ReadonlyMap<string, Entry>>()
  /** Descriptors whose writes return once they are durable. */
  readonly #syncing = new Set<number>()

  /** What the folder holds counts as durable from now on. */
  keep(folder: string): void {
    const fd = fs.openSync(folder, 'r')
    this.#synced(fd)
    fs.closeSync(fd)
  }

  /** What would be found in `folder` after a power cut now, in a new folder. */
  cut(folder: string, into: string): void {
    fs.mkdirSync(into, { recursive: true })
    for (const [name, { inode, isFolder }] of this.#names.get(fs.statSync(folder).ino) ?? []) {
      if (isFolder) this.cut(join(folder, name), join(into, name))
      else fs.writeFileSync(join(into, name), this.#contents.get(inode) ?? '')
    }
  }

  watchedPromises(real: typeof Promised): typeof Promised {
    const open = async (...[path, flags, mode]: Parameters<typeof Promised.open>): Promise<Promised.FileHandle> => {
      const isNew = !fs.existsSync(path)
      const handle = await real.open(path, flags, mode)
      const { fd } = handle
      this.#opened(fd, flags, isNew)
      const sync = handle.sync.bind(handle)
      const datasync = handle.datasync.bind(handle)
      const close = handle.close.bind(handle)
      return Object.assign(handle, {
        sync: () => sync().then(() => this.#synced(fd)),
        datasync: () => datasync().then(() => this.#synced(fd)),
        close: () => {
          this.#syncing.delete(fd)
          return close()
        },
      })
    }
    return { ...real, open }
  }

  watched(real: typeof Files): typeof Files {
    const writev = (fd: number, lines: readonly NodeJS.ArrayBufferView[], done: Done): void =>
      real.writev(fd, lines, this.#thenSynced(fd, done) as never)
    const write = (fd: number, bytes: Uint8Array, from: number, length: number, at: number | null, done: Done): void =>
      real.write(fd, bytes, from, length, at, this.#thenSynced(fd, done) as never)
    const openSync = (...[path, flags, mode]: Parameters<typeof Files.openSync>): number => {
      const isNew = !fs.existsSync(path)
      const fd = real.openSync(path, flags, mode)
      this.#opened(fd, flags, isNew)
      return fd
    }
    const close = (fd: number, done: () => void): void => {
      this.#syncing.delete(fd)
      real.close(fd, done)
    }
    return { ...real, writev, write, openSync, close } as unknown as typeof Files
  }

  #opened(fd: number, flags: string | number | undefined, isNew: boolean): void {
    // The inode may have been that of a file which is gone.
    if (isNew) this.#contents.delete(fs.fstatSync(fd).ino)
    if (typeof flags === 'number' && (flags & fs.constants.O_DSYNC) === fs.constants.O_DSYNC) this.#syncing.add(fd)
  }

  #thenSynced(fd: number, done: Done): Done {
    return (error, bytes, buffer) => {
      if (error === null && this.#syncing.has(fd)) this.#synced(fd)
      done(error, bytes, buffer)
    }
  }

  #synced(fd: number): void {
    const status = fs.fstatSync(fd)
    const path = `/proc/self/fd/${fd}`
    if (!status.isDirectory()) {
      this.#contents.set(status.ino, fs.readFileSync(path))
      return
    }
    const names = fs.readdirSync(path).map((name): [string, Entry] => {
      const found = fs.lstatSync(join(path, name))
      return [name, { inode: found.ino, isFolder: found.isDirectory() }]
    })
    this.#names.set(status.ino, new Map(names))
  }
}
