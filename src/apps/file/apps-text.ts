// Reads the app file `{"apps": [...]}` once: its text, or why it cannot be used. It blocks, so a service calls it on
// another thread.

import { createHash } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs'
import { StringDecoder } from 'node:string_decoder'
import { errorMessage } from '../../lib/errors.ts'

/** About 200,000 apps. */
export const MAX_APPS_FILE_BYTES = 64 * 1024 * 1024
const CHUNK_BYTES = 1024 * 1024

/** `identity`: of the file; null: it could not be opened. */
export type AppsText =
  | { readonly kind: 'text'; readonly text: string; readonly digest: string; readonly identity: string }
  /** Its text has the known digest. */
  | { readonly kind: 'same'; readonly identity: string }
  /** It was written to during the read: the text may be half old and half new. */
  | { readonly kind: 'changing' }
  | { readonly kind: 'mistakes'; readonly mistakes: readonly string[]; readonly identity: string | null }

/** `knownDigest`: of the text in force, which need not be parsed again; null: there is none. */
export function readAppsText(path: string, knownDigest: string | null): AppsText {
  let file: number
  try {
    // Without O_NONBLOCK, opening a named pipe would block until it has a writer.
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    return { kind: 'mistakes', mistakes: [errorMessage(error)], identity: null }
  }
  try {
    return readOpened(file, knownDigest)
  } catch (error) {
    return { kind: 'mistakes', mistakes: [errorMessage(error)], identity: null }
  } finally {
    closeSync(file)
  }
}

function readOpened(file: number, knownDigest: string | null): AppsText {
  const found = fstatSync(file)
  const identity = identityOf(found)
  if (!found.isFile()) return { kind: 'mistakes', mistakes: ['not a file'], identity }
  if (found.size > MAX_APPS_FILE_BYTES) {
    return { kind: 'mistakes', mistakes: [describeTooLarge(found.size)], identity }
  }
  const hash = createHash('sha256')
  const decoder = new StringDecoder('utf8')
  // In chunks: the C library keeps large blocks of memory that a thread has freed.
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  let text = ''
  let size = 0
  for (let bytes = readSync(file, chunk); bytes > 0; bytes = readSync(file, chunk)) {
    size += bytes
    if (size > MAX_APPS_FILE_BYTES) break
    hash.update(chunk.subarray(0, bytes))
    text += decoder.write(chunk.subarray(0, bytes))
  }
  text += decoder.end()
  if (identityOf(fstatSync(file)) !== identity) return { kind: 'changing' }
  // Some virtual file systems report a size of 0, so the bytes are counted.
  if (size > MAX_APPS_FILE_BYTES) return { kind: 'mistakes', mistakes: [describeTooLarge(size)], identity }
  const digest = hash.digest('hex')
  return digest === knownDigest ? { kind: 'same', identity } : { kind: 'text', text, digest, identity }
}

/** Returns the document for `checkRecords`. */
export function parseAppsText(text: string): { readonly document: unknown } | { readonly mistake: string } {
  try {
    return { document: JSON.parse(text) as unknown }
  } catch (error) {
    return { mistake: `not JSON${placeOf(error as Error)}` }
  }
}

/** Only the position: the rest of JSON.parse's message quotes the file, app keys included. */
function placeOf(error: Error): string {
  const place = / at position \d+/.exec(error.message)
  return place === null ? '' : `:${place[0]}`
}

export function describeTooLarge(bytes: number): string {
  return `${bytes} bytes, at most ${MAX_APPS_FILE_BYTES} are read`
}

export function describeMistakes(path: string, mistakes: readonly string[]): string {
  return [`the app file ${path} cannot be used:`, ...mistakes.map((mistake) => `  ${mistake}`)].join('\n')
}

/** Changes when the file is written, replaced, linked to another one, gets other permissions, or is deleted. */
export function identityOf(found: Stats | null): string {
  if (found === null) return 'gone'
  return `${found.dev}:${found.ino}:${found.size}:${found.mtimeMs}:${found.ctimeMs}`
}
