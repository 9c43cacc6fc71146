// What settings are checked against on this machine.

import { accessSync, constants, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { simdjsonAvailable } from '../decode/decoder.ts'
import { errorMessage } from '../lib/errors.ts'
import { maxOpenFiles } from '../lib/open-files.ts'
import { readValueFile } from '../lib/value-file.ts'

export const thisMachine = {
  parallelism: availableParallelism(),
  simdjsonAvailable,
  /** Files and sockets that this process may have open. */
  maxOpenFiles,
  /** Why a file cannot be read, or null. */
  unreadable,
  /** The value in a file. Throws an Error that names the file. */
  readValueFile,
}
export type Machine = typeof thisMachine

function unreadable(path: string): string | null {
  try {
    if (!statSync(path).isFile()) return `${path} is not a file`
    accessSync(path, constants.R_OK)
    return null
  } catch (error) {
    return `cannot read the file: ${errorMessage(error)}`
  }
}
