// Folders that may not be there: makes one, or finds the nearest that is.

import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { errorCode } from './errors.ts'

/**
 * Makes a folder and those above it. Node's own recursive mkdir never returns where the kernel answers ENOENT for a folder
 * whose parent is there, as it does under /proc. Throws where there can be no folder; `mode` is for those that are made.
 */
export function makeFolder(path: string, mode = 0o777): void {
  for (let hasParent = false; ; hasParent = true) {
    try {
      mkdirSync(path, { mode })
      return
    } catch (error) {
      const code = errorCode(error)
      // It was there, or another process has made it by now.
      if (code === 'EEXIST' && statSync(path).isDirectory()) return
      if (code !== 'ENOENT' || hasParent || dirname(path) === path) throw error
      makeFolder(dirname(path), mode)
    }
  }
}

/** The folder itself, or its nearest parent that exists. */
export function nearestFolder(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestFolder(dirname(path))
}
