// Standard output, of which no part is lost without an error.

import { fstatSync, writeFileSync } from 'node:fs'
import { Writable } from 'node:stream'

/** Node's own stream takes a write to a file that a full disk cut short for a whole one. */
export function standardOutput(): NodeJS.WritableStream {
  if (!fstatSync(1).isFile()) return process.stdout
  return new Writable({
    write(bytes: Buffer, _encoding, done) {
      try {
        writeFileSync(1, bytes)
        done()
      } catch (error) {
        done(error as Error)
      }
    },
  })
}
