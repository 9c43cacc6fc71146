// One edit of a file at a time, between processes: a lock file beside it, made only where none is.

import { randomUUID } from 'node:crypto'
import { link, open, readFile, rename, rm, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { errorCode, errorMessage, StartError } from '../lib/errors.ts'

/** An edit takes milliseconds; a lock this old was left by one that died, perhaps on another machine. */
const STALE_MS = 30_000
const RETRY_MS = 20

export interface EditLockOptions {
  /** How long to wait for another edit before giving up. */
  readonly waitMs: number
}

/** Runs `edit` while no other edit of `path` runs. */
export async function withEditLock<T>(
  path: string,
  edit: () => Promise<T>,
  { waitMs }: EditLockOptions = { waitMs: 10_000 },
): Promise<T> {
  const lockPath = `${path}.lock`
  const giveUpAtMs = performance.now() + waitMs
  while (!(await tryLock(lockPath))) {
    await breakIfStale(lockPath)
    if (performance.now() > giveUpAtMs) throw new StartError(`another edit holds ${lockPath}; remove it if none runs`)
    await sleep(RETRY_MS)
  }
  try {
    return await edit()
  } finally {
    await rm(lockPath, { force: true })
  }
}

async function tryLock(lockPath: string): Promise<boolean> {
  try {
    const file = await open(lockPath, 'wx')
    await file.writeFile(`${process.pid} ${hostname()} ${randomUUID()}\n`)
    await file.close()
    return true
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false
    throw new StartError(`cannot make the lock file ${lockPath}: ${errorMessage(error)}`)
  }
}

/**
 * Two processes may find one lock stale, and the slower must not remove the lock that the faster has made since.
 * So it is moved aside first, and put back where it turns out to be another than the one that was judged. Its text
 * tells, which no other lock has: the system gives the number of a file that is gone to the next one.
 */
async function breakIfStale(lockPath: string): Promise<void> {
  try {
    const judged = await readFile(lockPath, 'utf8')
    if (!isLeftBehind(judged) && !(await isOld(lockPath))) return
    // Its holder may have been done with it, and ended, since it was read.
    if ((await readFile(lockPath, 'utf8')) !== judged) return
    const aside = `${lockPath}.${process.pid}`
    await rename(lockPath, aside)
    if ((await readFile(aside, 'utf8')) !== judged) await link(aside, lockPath)
    await rm(aside, { force: true })
  } catch (error) {
    // Its holder is done with it, or another process has broken it: the next try tells.
    const code = errorCode(error)
    if (code !== 'ENOENT' && code !== 'EEXIST') throw error
  }
}

async function isOld(lockPath: string): Promise<boolean> {
  return Date.now() - (await stat(lockPath)).mtimeMs > STALE_MS
}

/** Process ids mean nothing across machines and containers; and a lock just made may not have its text yet. */
function isLeftBehind(text: string): boolean {
  const [pid, host] = text.trim().split(' ')
  return host === hostname() && !isAlive(Number(pid))
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return errorCode(error) !== 'ESRCH'
  }
}
