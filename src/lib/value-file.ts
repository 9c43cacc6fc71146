// A file that holds the value of a setting, as Docker and Kubernetes mount secrets.

import { readFileSync, statSync } from 'node:fs'
import { errorMessage } from './errors.ts'

/** More than any URL or token has. */
const MAX_BYTES = 65_536

/** Its text, without white space around it. Throws an Error that names the file, and none of its text. */
export function readValueFile(path: string): string {
  let text: string
  try {
    const stat = statSync(path)
    if (!stat.isFile()) throw new Error(`${path} is not a file`)
    if (stat.size > MAX_BYTES) throw new Error(`${path} has more than ${MAX_BYTES} bytes`)
    text = readFileSync(path, 'utf8').trim()
  } catch (error) {
    const reason = errorMessage(error)
    throw new Error(reason.includes(path) ? reason : `${path}: ${reason}`, { cause: error })
  }
  if (text === '') throw new Error(`${path} is empty`)
  return text
}
