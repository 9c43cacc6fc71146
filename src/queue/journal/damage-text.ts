// Damage to the journal in words, for the log and for commands.

import type { Damage } from './segment-cursor.ts'
import { commitsPath } from './side-files.ts'

export function damageText({ kind, path, offset, length, reason }: Damage): string {
  switch (kind) {
    case 'checksum':
      return `damaged bytes in ${path} at ${offset}: the ${length} bytes there are not those that were written`
    case 'missing':
      if (offset === 0)
        return `${path} was removed, or cut to nothing: its ${length} bytes of accepted records are gone`
      return `${path} ends at ${offset}: ${length} bytes of accepted records that were behind it are gone`
    case 'record':
      return `damaged record in ${path} at ${offset}: its ${length} bytes are no record, and its events cannot be recovered`
    case 'beside':
      return `${path} cannot be read (${reason}), and is taken as missing: no record is lost, but damage to its segment may not be noticed`
  }
}

/** Of the segment at this path. */
export function noCommitsText(path: string): string {
  return `${commitsPath(path)} has no line, and the ids beside it have: it was damaged or removed, so damage to the records that are there would not have been noticed`
}
