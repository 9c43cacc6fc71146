// Reads the embedded queue's files as any outsider would: text, one JSON record a line.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface StoredRecord {
  /** The line as stored. */
  readonly line: string
  readonly v: number
  readonly batch_id: string
  readonly app_id: string
  readonly received_at: string
  readonly sdk_version?: string
  readonly events: readonly Record<string, unknown>[]
}

/** The segments in order, oldest first. */
export function journalFiles(dataDir: string): string[] {
  const folder = join(dataDir, 'journal')
  return readdirSync(folder)
    .filter((name) => name.endsWith('.ndjson'))
    .toSorted()
    .map((name) => join(folder, name))
}

/**
 * Every record that is stored; throws where a line is not one. Room kept free at a segment's end is skipped, and so is a
 * line without an end: it is being written.
 */
export function readJournal(dataDir: string): StoredRecord[] {
  const records: StoredRecord[] = []
  for (const file of journalFiles(dataDir)) {
    const bytes = readFileSync(file)
    const freeFrom = bytes.indexOf(0)
    const text = bytes.subarray(0, freeFrom < 0 ? bytes.length : freeFrom).toString()
    for (const line of text.slice(0, text.lastIndexOf('\n') + 1).split('\n')) {
      if (line.trim() === '') continue
      records.push({ ...(JSON.parse(line) as Omit<StoredRecord, 'line'>), line })
    }
  }
  return records
}

/** Index just past the JSON value that starts at `at`. */
function valueEnd(text: string, at: number): number {
  let depth = 0
  for (let i = at; i < text.length; i++) {
    const char = text[i]
    if (char === '"') {
      for (i++; text[i] !== '"'; i++) if (text[i] === '\\') i++
    } else if (char === '{' || char === '[') depth++
    else if (char === '}' || char === ']' || char === ',') {
      if (depth === 0) return i
      if (char !== ',') depth--
    } else continue
    if (depth === 0 && char !== ',') return i + 1
  }
  return text.length
}

/** The text of one member of a record, as stored; null where there is none. */
export function memberText(line: string, name: string): string | null {
  let at = 1
  while (at < line.length) {
    const keyEnd = valueEnd(line, at)
    const end = valueEnd(line, keyEnd + 1)
    if (line.slice(at, keyEnd) === JSON.stringify(name)) return line.slice(keyEnd + 1, end)
    at = end + 1
  }
  return null
}

/** A JSON text without the whitespace between its tokens. */
export function withoutSpaces(text: string): string {
  return text.replace(/("(?:[^"\\]|\\.)*")|[ \t\r\n]+/g, (_, string: string | undefined) => string ?? '')
}
