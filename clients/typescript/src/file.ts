// A store of files for Node: one a name, written beside its place, synced and renamed, so that a crash at any moment
// leaves the old text or the new one.

import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { attempt } from './platform.ts'
import type { SyncStore } from './types.ts'

/** Processes may share the folder: one of them sends. */
export function fileStore(folder: string): SyncStore {
  mkdirSync(folder, { recursive: true })
  const path = (name: string): string => join(folder, name)
  const remove = (name: string): void => attempt(() => rmSync(path(name), { force: true }))
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
