// One edit of a file at a time, between processes, and between containers and machines that share its folder. The lock is
// a file beside it, which only one can make. It is taken over where its holder was killed.

import { randomUUID } from 'node:crypto'
import { closeSync, openSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { errorCode, errorMessage, StartError } from './errors.ts'

const RETRY_MS = 20
const DEFAULTS = {
  /** How long to wait for other edits before giving up. */
  waitMs: 60_000,
  /** An edit takes some seconds at the most: whoever holds the lock for longer was killed, or is stopped. */
  maxHoldMs: 10_000,
}
const TAKEN_OVER = 'another edit took the lock over meanwhile: nothing is changed; try again'

/**
 * Runs `edit` while no other edit of `path` runs. It calls `confirm` just before it replaces the file, which throws where
 * this process was stopped for so long that another edit took the lock over.
 */
export async function withEditLock<T>(
  path: string,
  edit: (confirm: () => void) => T,
  options: Partial<typeof DEFAULTS> = {},
): Promise<T> {
  const own = `process ${process.pid} on ${hostname()} (${randomUUID()})`
  let lock: string
  try {
    lock = lockOf(path)
    await take(lock, own, { ...DEFAULTS, ...options })
  } catch (error) {
    throw new StartError(`cannot lock ${path} for an edit: ${errorMessage(error)}`)
  }
  const isHeld = (): boolean => holderOf(lock) === own
  try {
    return edit(() => {
      if (!isHeld()) throw new StartError(TAKEN_OVER)
    })
  } finally {
    if (isHeld()) rmSync(lock, { force: true })
  }
}

/** Links to one file lead to one lock. */
function lockOf(path: string): string {
  let target: string
  try {
    target = realpathSync(path)
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
    target = join(realpathSync(dirname(path)), basename(path))
  }
  return join(dirname(target), `.${basename(target)}.lock`)
}

async function take(lock: string, own: string, { waitMs, maxHoldMs }: typeof DEFAULTS): Promise<void> {
  const startedMs = performance.now()
  let seen: string | null = null
  let seenAtMs = startedMs
  while (!isMade(lock, own)) {
    const monotonicMs = performance.now()
    const holder = holderOf(lock)
    if (holder !== seen) {
      seen = holder
      seenAtMs = monotonicMs
    } else if (monotonicMs - seenAtMs >= maxHoldMs) {
      // Another may do the same at this moment and have the lock already: it notices when it confirms.
      rmSync(lock, { force: true })
      continue
    }
    if (monotonicMs - startedMs >= waitMs) throw new Error(`another edit still runs: ${holder} holds ${lock}`)
    await sleep(RETRY_MS)
  }
}

function isMade(lock: string, own: string): boolean {
  let file: number
  try {
    file = openSync(lock, 'wx')
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error
    return false
  }
  try {
    writeFileSync(file, own)
    return true
  } catch (error) {
    // The disk is full: the next edit must not wait for this one.
    rmSync(lock, { force: true })
    throw error
  } finally {
    closeSync(file)
  }
}

function holderOf(lock: string): string {
  try {
    // A pipe would make its reader wait.
    if (statSync(lock).isFile()) return readFileSync(lock, 'utf8')
  } catch {
    // It has gone, or belongs to another user.
  }
  return 'an unknown process'
}
