// Files that settings name: values, as Docker and Kubernetes mount secrets, certificates and credentials.

import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from 'node:fs'
import { open } from 'node:fs/promises'
import { errorMessage } from './errors.ts'

/** More than any URL or token has. */
const MAX_VALUE_BYTES = 65_536
/** Several times what all authorities of a system have. */
const MAX_BYTES = 4 * 1024 * 1024
/** Without O_NONBLOCK, opening a named pipe would wait for its writer, for ever and with a thread of libuv. */
const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK

/** Rejects with an Error that names the file. */
export async function readSettingFile(path: string): Promise<Buffer> {
  try {
    const file = await open(path, FLAGS)
    try {
      checkStats(path, await file.stat(), MAX_BYTES)
      return await file.readFile()
    } finally {
      await file.close()
    }
  } catch (error) {
    throw named(path, error)
  }
}

/** Its text, without white space around it. Throws an Error that names the file, and none of its text. */
export function readValueFile(path: string): string {
  let text: string
  try {
    const file = openSync(path, FLAGS)
    try {
      checkStats(path, fstatSync(file), MAX_VALUE_BYTES)
      text = readFileSync(file, 'utf8').trim()
    } finally {
      closeSync(file)
    }
  } catch (error) {
    throw named(path, error)
  }
  if (text === '') throw new Error(`${path} is empty`)
  return text
}

function checkStats(path: string, stats: Stats, maxBytes: number): void {
  if (!stats.isFile()) throw new Error(`${path} is not a file`)
  if (stats.size > maxBytes) throw new Error(`${path} has more than ${maxBytes} bytes`)
}

function named(path: string, error: unknown): Error {
  const reason = errorMessage(error)
  return new Error(reason.includes(path) ? reason : `${path}: ${reason}`, { cause: error })
}
