// Reads the app file `{"apps": [...]}` once, whole: what stands in it, or why it cannot be used. It blocks, so that a
// service does it in a thread of its own.

import { createHash } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs'
import { StringDecoder } from 'node:string_decoder'
import { errorMessage } from '../../lib/errors.ts'

/** Largest file that is read: some 200,000 apps. */
export const MAX_APPS_FILE_BYTES = 64 * 1024 * 1024
const PIECE_BYTES = 1024 * 1024

/** `identity`: of the file that was found; null: there was none to be had. */
export type AppsText =
  | { readonly kind: 'text'; readonly text: string; readonly digest: string; readonly identity: string }
  /** It has the text that the reader knows already. */
  | { readonly kind: 'same'; readonly identity: string }
  /** Somebody wrote to it meanwhile: what was read may be half of each. */
  | { readonly kind: 'changing' }
  | { readonly kind: 'mistakes'; readonly mistakes: readonly string[]; readonly identity: string | null }

/** `knownDigest`: of the text that need not be read again; null: of none. */
export function readAppsText(path: string, knownDigest: string | null): AppsText {
  let file: number
  try {
    // Without O_NONBLOCK the open of a named pipe would wait for its writer, and the whole process with it.
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
  // Piece by piece: the C library keeps large pieces of memory that a thread has given back.
  const piece = Buffer.allocUnsafe(PIECE_BYTES)
  let text = ''
  let size = 0
  for (let bytes = readSync(file, piece); bytes > 0; bytes = readSync(file, piece)) {
    size += bytes
    if (size > MAX_APPS_FILE_BYTES) break
    hash.update(piece.subarray(0, bytes))
    text += decoder.write(piece.subarray(0, bytes))
  }
  text += decoder.end()
  if (identityOf(fstatSync(file)) !== identity) return { kind: 'changing' }
  // A file system that makes its files up as they are read may say that they are empty.
  if (size > MAX_APPS_FILE_BYTES) return { kind: 'mistakes', mistakes: [describeTooLarge(size)], identity }
  const digest = hash.digest('hex')
  return digest === knownDigest ? { kind: 'same', identity } : { kind: 'text', text, digest, identity }
}

/** The document, for `checkRecords`; or what is wrong with the text. */
export function parseAppsText(text: string): { readonly document: unknown } | { readonly mistake: string } {
  try {
    return { document: JSON.parse(text) as unknown }
  } catch (error) {
    return { mistake: `not JSON${placeOf(error as Error)}` }
  }
}

/** Where JSON.parse stopped, where it says so. The rest of its message quotes the file, keys of apps included. */
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

/** What changes when a file does: written in place, replaced, reached through another link, its rights, or gone. */
export function identityOf(found: Stats | null): string {
  if (found === null) return 'gone'
  return `${found.dev}:${found.ino}:${found.size}:${found.mtimeMs}:${found.ctimeMs}`
}
