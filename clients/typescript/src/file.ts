// A store of files for Node: one a name, written beside its place, synced and renamed, so that a crash at any moment
// leaves the old text or the new one.

import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { attempt } from './platform.ts'
import type { SyncStore } from './types.ts'

/** A write is long over, also where another process, or another container, is at it. */
const MAX_WRITE_MS = 600_000

/** Processes may share the folder: one of them sends. */
export function fileStore(folder: string): SyncStore {
  // Without a folder nothing is kept, and the client has its memory.
  attempt(() => mkdirSync(folder, { recursive: true }))
  const path = (name: string): string => join(folder, name)
  const remove = (name: string): void => attempt(() => rmSync(path(name), { force: true }))
  // A process that was killed while it wrote has left its events beside their place.
  for (const name of attempt(() => readdirSync(folder), []))
    if (/^\..*\.\d+$/.test(name) && attempt(() => statSync(path(name)).mtimeMs < Date.now() - MAX_WRITE_MS, false))
      remove(name)
  return {
    keys: () => attempt(() => readdirSync(folder).filter((file) => !file.startsWith('.')), []),
    get: (name) => attempt(() => readFileSync(path(name), 'utf8'), null),
    set(name, value) {
      const beside = `.${name}.${process.pid}`
      const write = (): void => {
        writeFileSync(path(beside), value, { flush: true })
        renameSync(path(beside), path(name))
      }
      const isWritten = attempt(write, false) !== false
      if (!isWritten) remove(beside)
      return isWritten
    },
    remove,
  }
}
