// The app file: read at start and again whenever it changes, by a thread that lives for as long as that takes. What
// was read last stays in force until the new apps are there, whole.

import { stat } from 'node:fs/promises'
import type { Clock } from '../../lib/clock.ts'
import { errorMessage } from '../../lib/errors.ts'
import { type App, type AppStore, isValidKey } from '../app.ts'
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
/** Looks in a row that found a file which was being changed. Then that is said, once. */
const MAX_CHANGING_LOOKS = 40
const CHANGING = 'it changes again each time it is read'
/** A disk that hangs keeps a reader for ever. 200,000 apps take some 2 s. */
const READ_TIMEOUT_MS = 30_000

export interface AppsFileOptions {
  readonly path: string
  /** Which previous keys are over. */
  readonly clock: Clock
  /** How often the file is looked at. */
  readonly pollMs?: number
  readonly readAgainMs?: { readonly good: number; readonly bad: number }
  /** How long a look or a read may take. */
  readonly readTimeoutMs?: number
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
  #table = new AppTable(packApps([], 0, 0))
  /** Of the text in force. */
  #digest: string | null = null
  /** Of the file that was dealt with last; null: none was. */
  #settled: string | null = null
  /** What a bad file looked like when it was first seen: it may be one that is still being written. */
  #badOnce: string | null = null
  #isBad = false
  /** The disk has not answered in time, and that has been said. */
  #isLate = false
  #changingLooks = 0
  /** By a clock that nobody sets. */
  #readAgainAtMs = Number.POSITIVE_INFINITY
  #reloadFailures = 0
  #thread: AppsThread | null = null
  #timer: NodeJS.Timeout | undefined
  #isStopped = false

  constructor(options: AppsFileOptions) {
    this.#options = { pollMs: POLL_MS, readAgainMs: READ_AGAIN_MS, readTimeoutMs: READ_TIMEOUT_MS, ...options }
  }

  get reloadFailures(): number {
    return this.#reloadFailures
  }

  async start(): Promise<void> {
    const { path, pollMs } = this.#options
    let read = await this.#read()
    for (let look = 1; read.kind === 'changing' && look < MAX_CHANGING_LOOKS; look++) {
      await new Promise((resolve) => setTimeout(resolve, pollMs))
      read = await this.#read()
    }
    if (read.kind === 'mistakes') throw new Error(describeMistakes(path, read.mistakes))
    if (read.kind === 'late') throw new Error(describeMistakes(path, [this.#describeLate()]))
    if (read.kind !== 'apps') throw new Error(describeMistakes(path, [CHANGING]))
    this.#put(read)
    this.#settle(read.identity, 'good')
    this.#schedulePoll()
  }

  find(appKey: string): App | 'unknown' {
    const app = this.#table.find(appKey)
    return app !== undefined && isValidKey(app, appKey, this.#options.clock()) ? app : 'unknown'
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
      const seen = await this.#identity()
      try {
        await this.#look(seen)
      } catch (error) {
        this.#settle(seen, 'bad')
        this.#fail([`looking at it failed: ${errorMessage(error)}`])
      }
      if (!this.#isStopped) this.#schedulePoll()
    }, this.#options.pollMs).unref()
  }

  /** Waits for as long as the disk does not answer: a second question would wait as well, and hold a thread. */
  async #identity(): Promise<string> {
    const timer = setTimeout(() => this.#sayLate(), this.#options.readTimeoutMs).unref()
    const found = await stat(this.#options.path).catch(() => null)
    clearTimeout(timer)
    return identityOf(found)
  }

  async #look(seen: string): Promise<void> {
    const isKnown = seen === this.#settled && performance.now() < this.#readAgainAtMs
    if (this.#isStopped || (isKnown && !this.#isLate)) return
    const read = await this.#read()
    if (this.#isStopped) return
    if (read.kind === 'late') {
      this.#sayLate()
      await this.#thread?.ended
      return
    }
    this.#isLate = false
    switch (read.kind) {
      case 'apps':
        this.#put(read)
        return this.#takeUp(read.identity, true)
      case 'same':
        return this.#takeUp(read.identity, this.#isBad)
      case 'changing':
        return this.#lookAgain()
      case 'mistakes':
        return this.#takeBad(read.identity ?? seen, read.mistakes)
    }
  }

  #read(): AppsThread['answer'] {
    const { path, readTimeoutMs } = this.#options
    this.#thread = startAppsThread({ path, knownDigest: this.#digest }, readTimeoutMs)
    return this.#thread.answer
  }

  #sayLate(): void {
    if (this.#isStopped || this.#isLate) return
    this.#isLate = true
    this.#fail([this.#describeLate()])
  }

  #describeLate(): string {
    return `the disk has not given it for ${this.#options.readTimeoutMs / 1000} s`
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

  #takeBad(identity: string, mistakes: readonly string[]): void {
    if (identity === this.#badOnce) {
      this.#settle(identity, 'bad')
      this.#fail(mistakes)
    } else if (identity === this.#settled && this.#isBad) {
      this.#settle(identity, 'bad')
    } else {
      this.#badOnce = identity
      this.#lookAgain()
    }
  }

  #settle(identity: string, how: 'good' | 'bad'): void {
    this.#settled = identity
    this.#badOnce = null
    this.#changingLooks = 0
    this.#readAgainAtMs = performance.now() + this.#options.readAgainMs[how]
  }

  #lookAgain(): void {
    this.#settled = null
    if (++this.#changingLooks === MAX_CHANGING_LOOKS) this.#fail([CHANGING])
  }

  #fail(reasons: readonly string[]): void {
    this.#isBad = true
    this.#reloadFailures++
    this.#options.onBadFile(reasons)
  }
}
