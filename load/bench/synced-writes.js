// @ts-check
// The disk alone, to compare: appends to a file at a fixed rate, each write synced as the journal's are. The latency of a
// write counts from the moment at which it was due. Prints one line of JSON.
// Arguments: a folder, the bytes of a write, seconds.

import { closeSync, constants, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { percentilesOf } from './percentiles.js'

/** As the journal's small commits. */
const EVERY_MS = 1

const [, , folder, bytes, seconds] = process.argv
const path = join(folder, 'synced-writes')
const { O_WRONLY, O_CREAT, O_TRUNC, O_APPEND, O_DSYNC } = constants
const file = openSync(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_DSYNC)
const line = Buffer.alloc(Number(bytes), 'x')
const startMs = performance.now()
const latenciesMs = Array.from({ length: (Number(seconds) * 1000) / EVERY_MS }, (_, write) => {
  const dueMs = startMs + write * EVERY_MS
  while (performance.now() < dueMs);
  writeSync(file, line)
  return performance.now() - dueMs
})
closeSync(file)
rmSync(path)
console.log(JSON.stringify(percentilesOf(latenciesMs)))
