// How many files this process has open, and the limit (`ulimit -n`) that holds for it. Node raises it to the hard limit at its start.

import { readFileSync, statSync } from 'node:fs'

/** Where the system does not say. */
const USUAL_LIMIT = 1024
/** No system gives more; `unlimited` is this. */
const MOST = 1_048_576

export function maxOpenFiles(): number {
  try {
    return openFilesIn(readFileSync('/proc/self/limits', 'utf8'))
  } catch {
    return USUAL_LIMIT
  }
}

/** `limits`: the text of /proc/self/limits. */
export function openFilesIn(limits: string): number {
  const soft = /^Max open files +(\d+|unlimited)/m.exec(limits)?.[1]
  if (soft === undefined) return USUAL_LIMIT
  return soft === 'unlimited' ? MOST : Math.min(MOST, Number(soft))
}

/** Linux 6.2 and later count them without listing them; undefined: this system does not. */
export function openFiles(): number | undefined {
  return statSync('/proc/self/fd', { throwIfNoEntry: false })?.size || undefined
}
