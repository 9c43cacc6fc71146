// The app file: read at start and again whenever it changes, by a thread that lives for as long as that takes. What
// was read last stays in force until the new apps are there, whole.

import { stat } from 'node:fs/promises'
import type { App, AppStore } from './app.ts'
import type { AppsRead } from './apps-reader.ts'
import { describeMistakes, identityOf } from './apps-text.ts'
import { type AppsThread, startAppsThread } from './apps-thread.ts'
import { AppTable, packApps } from './packed-apps.ts'

const POLL_MS = 200
/**
 * A file is read once more so long after it was read. Two changes within one tick of the file system's clock, which may
 * be seconds, look like one; and a file that could not be read may have been in want of no more than a descriptor.
 */
const READ_AGAIN_MS = { good: 3000, bad: 30_000 } as const
/** Looks in a row that found no file at rest. Then that is said, once. */
const MAX_RESTLESS_LOOKS = 40
const RESTLESS = 'it changes again each time it is read'

export interface AppsFileOptions {
  readonly path: string
  /** How often the file is looked at. */
  readonly pollMs?: number
  readonly readAgainMs?: { readonly good: number; readonly bad: number }
  /** A changed file is in force now, with so many apps. */
  readonly onReload: (count: number) => void
  /** A changed file cannot be used, and the last good one stays in force. Called once a change. */
  readonly onBadFile: (reasons: readonly string[]) => void
}

export interface AppsFile extends AppStore {
  find(appKey: string): App | 'unknown'
  stop(): void
  /** Changed files that could not be used, since the start. */
  readonly reloadFailures: number
}

/**
 * Reads the file, and looks every `pollMs` whether it has changed. Polling, because it alone works on every file
 * system, through links that are swapped, and when the file goes and comes back. A bad file here throws.
 */
export async function openAppsFile(options: AppsFileOptions): Promise<AppsFile> {
  const file = new WatchedAppsFile(options)
  await file.start()
  return file
}

class WatchedAppsFile implements AppsFile {
  readonly #options: Required<AppsFileOptions>
  #table = new AppTable(packApps([], 0))
  /** Of the text in force. */
  #digest: string | null = null
  /** Of the file that was dealt with last; null: none was. */
  #settled: string | null = null
  /** What a bad file looked like when it was first seen: it may be one that is still being written. */
  #suspect: string | null = null
  #isBad = false
  #restlessLooks = 0
  /** By a clock that nobody sets. */
  #readAgainAtMs = Number.POSITIVE_INFINITY
  #reloadFailures = 0
  #thread: AppsThread | null = null
  #timer: NodeJS.Timeout | undefined
  #isStopped = false

  constructor(options: AppsFileOptions) {
    this.#options = { pollMs: POLL_MS, readAgainMs: READ_AGAIN_MS, ...options }
  }

  get reloadFailures(): number {
    return this.#reloadFailures
  }

  async start(): Promise<void> {
    const { path, pollMs } = this.#options
    let read = await this.#read()
    for (let look = 1; read.kind === 'changing' && look < MAX_RESTLESS_LOOKS; look++) {
      await new Promise((resolve) => setTimeout(resolve, pollMs))
      read = await this.#read()
    }
    if (read.kind === 'mistakes') throw new Error(describeMistakes(path, read.mistakes))
    if (read.kind !== 'apps') throw new Error(describeMistakes(path, [RESTLESS]))
    this.#put(read)
    this.#settle(read.identity, 'good')
    this.#schedulePoll()
  }

  find(appKey: string): App | 'unknown' {
    return this.#table.find(appKey) ?? 'unknown'
  }

  all(): Iterable<App> {
    return this.#table.all()
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
    this.#thread?.stop()
  }

  #schedulePoll(): void {
    // The next look is set once this one is over, so that no two overlap on a slow disk.
    this.#timer = setTimeout(async () => {
      await this.#look()
      if (!this.#isStopped) this.#schedulePoll()
    }, this.#options.pollMs).unref()
  }

  async #look(): Promise<void> {
    const seen = identityOf(await stat(this.#options.path).catch(() => null))
    if (this.#isStopped || (seen === this.#settled && performance.now() < this.#readAgainAtMs)) return
    const read = await this.#read()
    if (this.#isStopped) return
    switch (read.kind) {
      case 'apps':
        this.#put(read)
        return this.#takeUp(read.identity, true)
      case 'same':
        return this.#takeUp(read.identity, this.#isBad)
      case 'changing':
        return this.#waitForRest()
      case 'mistakes':
        return this.#doubt(read.identity ?? seen, read.mistakes)
    }
  }

  async #read(): Promise<AppsRead> {
    this.#thread = startAppsThread({ path: this.#options.path, knownDigest: this.#digest })
    const read = await this.#thread.answer
    this.#thread = null
    return read
  }

  #put(read: Extract<AppsRead, { kind: 'apps' }>): void {
    this.#table = new AppTable(read.packed)
    this.#digest = read.digest
  }

  #takeUp(identity: string, isNews: boolean): void {
    // What was read again, and found as it was, is not read for a third time.
    if (identity !== this.#settled || isNews) this.#settle(identity, 'good')
    else this.#readAgainAtMs = Number.POSITIVE_INFINITY
    this.#isBad = false
    if (isNews) this.#options.onReload(this.#table.count)
  }

  #doubt(identity: string, mistakes: readonly string[]): void {
    if (identity === this.#suspect) {
      this.#settle(identity, 'bad')
      this.#fail(mistakes)
    } else if (identity === this.#settled && this.#isBad) {
      this.#settle(identity, 'bad')
    } else {
      this.#suspect = identity
      this.#waitForRest()
    }
  }

  #settle(identity: string, how: 'good' | 'bad'): void {
    this.#settled = identity
    this.#suspect = null
    this.#restlessLooks = 0
    this.#readAgainAtMs = performance.now() + this.#options.readAgainMs[how]
  }

  #waitForRest(): void {
    this.#settled = null
    if (++this.#restlessLooks === MAX_RESTLESS_LOOKS) this.#fail([RESTLESS])
  }

  #fail(reasons: readonly string[]): void {
    this.#isBad = true
    this.#reloadFailures++
    this.#options.onBadFile(reasons)
  }
}
