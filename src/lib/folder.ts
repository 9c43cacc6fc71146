// Makes a folder and those above it. Node's own recursive mkdir never returns where the kernel answers ENOENT for a
// folder whose parent is there, as it does under /proc.

import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { errorCode } from './errors.ts'

/** Throws where there can be no folder; `mode` is for those that are made. */
export function makeFolder(path: string, mode = 0o777): void {
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    const code = errorCode(error)
    if (code === 'EEXIST' && statSync(path).isDirectory()) return
    if (code !== 'ENOENT' || dirname(path) === path) throw error
    makeFolder(dirname(path), mode)
    makeLast(path, mode)
  }
}

/** Its parent is there now, and another process may have made the folder itself too. */
function makeLast(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    if (errorCode(error) !== 'EEXIST' || !statSync(path).isDirectory()) throw error
  }
}
