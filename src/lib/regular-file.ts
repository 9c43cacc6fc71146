// Opens files of a folder in which any other program's folder or pipe may have the name.

import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { errorCode, StartError } from './errors.ts'

/** The code of the error where there is a folder, a pipe or the like. */
export const NO_REGULAR_FILE = 'NO_REGULAR_FILE'
/** Of an opening that such a file refuses by itself. */
const IRREGULAR: ReadonlySet<string> = new Set(['EISDIR', 'ENXIO', 'ELOOP', 'ENODEV', 'EOPNOTSUPP'])

export async function openRegular(path: string, flags = constants.O_RDONLY, mode?: number): Promise<FileHandle> {
  // Without O_NONBLOCK, opening a named pipe would wait for another program, for ever and with a thread of libuv.
  const file = await open(path, flags | constants.O_NONBLOCK, mode).catch((error: unknown) => {
    throw IRREGULAR.has(errorCode(error) ?? '') ? irregular(path) : error
  })
  try {
    if ((await file.stat()).isFile()) return file
  } catch (error) {
    await file.close()
    throw error
  }
  await file.close()
  throw irregular(path)
}

export async function readRegular(path: string): Promise<string> {
  const file = await openRegular(path)
  return await file.readFile('utf8').finally(() => file.close())
}

function irregular(path: string): Error {
  return Object.assign(new StartError(`${path} is no regular file`), { code: NO_REGULAR_FILE })
}
