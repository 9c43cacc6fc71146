// A small file system of its own, for tests that fill it.

import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmdirSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** Mounts one until the test is over, and returns its path. Where that is not permitted, prints this and skips the test. */
export function mountSmall(size: string, skip: () => void): string {
  const at = mkdtempSync(join(tmpdir(), 'sluice-disk-'))
  let isMounted = false
  onTestFinished(() => {
    if (isMounted) execFileSync('umount', ['-l', at])
    rmdirSync(at)
  })
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', at], { stdio: 'ignore' })
    isMounted = true
  } catch {
    console.warn('not run: a small file system could not be mounted here (this wants root)')
    skip()
  }
  return at
}

/** Leaves no room on the disk of `file`. */
export function takeAllRoom(file: string): void {
  const descriptor = openSync(file, 'w')
  try {
    for (const size of [1_048_576, 4096]) {
      const piece = Buffer.alloc(size, 1)
      try {
        for (;;) if (writeSync(descriptor, piece) < size) break
      } catch {
        // No room for a piece of this size, so continue with a smaller one.
      }
    }
  } finally {
    closeSync(descriptor)
  }
}
