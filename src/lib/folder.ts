// Folders that may not be there: makes one that a power cut does not take, or finds the nearest that is.

import { existsSync } from 'node:fs'
import { mkdir, open, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { errorCode } from './errors.ts'

/**
 * Makes a folder and those above it, and the name of each durable. Node's own recursive mkdir never returns where the kernel
 * answers ENOENT for a folder whose parent is there, as it does under /proc. Rejects where there can be no folder; `mode` is
 * for those that are made.
 */
export async function makeFolder(path: string, mode = 0o777): Promise<void> {
  for (let hasParent = false; ; hasParent = true) {
    try {
      await mkdir(path, { mode })
      await syncFolder(dirname(path))
      return
    } catch (error) {
      const code = errorCode(error)
      // It was there, or another process has made it by now.
      if (code === 'EEXIST' && (await stat(path)).isDirectory()) return
      if (code !== 'ENOENT' || hasParent || dirname(path) === path) throw error
      await makeFolder(dirname(path), mode)
    }
  }
}

/** A file's name is durable only once its folder is synced. Windows does not support this, and does not need it. */
export async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** The folder itself, or its nearest parent that exists. */
export function nearestFolder(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestFolder(dirname(path))
}
