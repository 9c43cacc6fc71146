// Files that are written under another name and renamed: made anew each time, whatever has the name. In a folder where others may
// make names, a link there would lead to any file of this user.

import { constants } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'

/** One that a crash left is removed first, and a link rather than what it leads to. */
export async function openNew(path: string, mode?: number): Promise<FileHandle> {
  await rm(path, { force: true })
  return await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, mode)
}
