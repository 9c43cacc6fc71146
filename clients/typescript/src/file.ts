// A store of files for Node: one a name, written beside its place, synced and renamed, so that a crash at any moment
// leaves the old text or the new one.

import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Store } from './types.ts'

/** Processes may share the folder: one of them sends. */
export function fileStore(folder: string): Store {
  mkdirSync(folder, { recursive: true })
  const path = (name: string): string => join(folder, name)
  const remove = (name: string): void => {
    try {
      rmSync(path(name), { force: true })
    } catch {
      // A disk that only reads, or a folder that is gone.
    }
  }
  return {
    keys() {
      try {
        return readdirSync(folder).filter((file) => !file.startsWith('.'))
      } catch {
        return []
      }
    },
    get(name) {
      try {
        return readFileSync(path(name), 'utf8')
      } catch {
        return null
      }
    },
    set(name, value) {
      const beside = path(`.${name}.${process.pid}`)
      try {
        writeFileSync(beside, value, { flush: true })
        renameSync(beside, path(name))
        return true
      } catch {
        remove(`.${name}.${process.pid}`)
        return false
      }
    },
    remove,
  }
}
