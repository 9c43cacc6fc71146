// What the journal asks of the disk while the service runs.

import { fdatasync, writev } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { type DirectFile, openDirectFile } from './direct-writes.ts'
import { createSegment, WRITES_ARE_SYNCED } from './segments.ts'

/** The code of the error of a write for which there is no room. */
export const DISK_FULL = 'ENOSPC'

/** The system calls that can fail while the service runs; tests put a failing disk here. */
export interface Disk {
  /** Appends and syncs. `done` gets the number of durable bytes; fewer than given is a failure. */
  append(handle: FileHandle, lines: readonly Uint8Array[], done: (error: Error | null, bytes: number) => void): void
  truncate(handle: FileHandle, bytes: number): Promise<void>
  createSegment(directory: string, number: number): Promise<FileHandle>
  /** Opens the file of `handle` for direct writes too. null: it cannot be. Throws where the file system has none. */
  openDirectly(path: string, handle: FileHandle): DirectFile | null
}

export const realDisk: Disk = {
  append(handle, lines, done) {
    writev(handle.fd, lines, (error, bytes) => {
      if (error !== null || WRITES_ARE_SYNCED) done(error, bytes)
      else fdatasync(handle.fd, (syncError) => done(syncError, bytes))
    })
  },
  async truncate(handle, bytes) {
    await handle.truncate(bytes)
    await handle.sync()
  },
  createSegment,
  openDirectly: openDirectFile,
}
