// The app file: read at start and after each change, by a thread that ends when the file is read. The last good version
// stays in force until a new one has been read completely.

import { stat } from 'node:fs/promises'
import type { Status } from '../../contract/health.ts'
import type { Clock } from '../../lib/clock.ts'
import { errorMessage } from '../../lib/errors.ts'
import type { App, AppDirectory } from '../app.ts'
import { AppIndex } from '../app-index.ts'
import { describeMistakes, identityOf } from './apps-text.ts'
import { type AppsRead, type AppsThread, startAppsThread } from './apps-thread.ts'

/** Polls in a row that find the file being changed, after which this is reported, once. */
const MAX_CHANGING_POLLS = 40
const CHANGING = 'it changes again each time it is read'
const DEFAULTS = {
  pollMs: 200,
  /**
   * A file is read once more after this time. good: two changes within one tick of the file system's clock, up to seconds,
   * look like one. bad: the read may have failed for a passing reason, such as too few file descriptors.
   */
  rereadAfterMs: { good: 3000, bad: 30_000 },
  /** Of a stat or a read, against a disk that hangs. 200,000 apps take about 2 s. */
  readTimeoutMs: 30_000,
}

export interface AppsFileOptions extends Partial<typeof DEFAULTS> {
  readonly path: string
  /** Decides which previous keys have expired. */
  readonly clock: Clock
  /** A changed file is in force, with `count` apps. */
  readonly onReload: (count: number) => void
  /** A changed file cannot be used: the last good version stays in force. Called once per change. */
  readonly onBadFile: (reasons: readonly string[]) => void
}

/**
 * Reads the file, then polls it for changes. Polling works on every file system, with links that are swapped, and when
 * the file disappears and comes back; watching does not. Throws for a file that cannot be used.
 */
export async function openAppsFile(options: AppsFileOptions): Promise<AppsFile> {
  const file = new AppsFile(options)
  await file.start()
  return file
}

export class AppsFile implements AppDirectory {
  readonly #options: Required<AppsFileOptions>
  #apps = new AppIndex()
  /** Of the file's text in force. */
  #digest: string | null = null
  /** The identity of the file handled last; null: it has to be read at the next poll. */
  #handled: string | null = null
  /** The identity of a bad file that was read once: it may still be being written, so it is read again first. */
  #badOnce: string | null = null
  #isBad = false
  /** The disk has not answered in time, and this has been reported. */
  #isLate = false
  #changingPolls = 0
  /** By the monotonic clock. */
  #rereadAtMs = Number.POSITIVE_INFINITY
  #thread: AppsThread | null = null
  #timer: NodeJS.Timeout | undefined
  #isStopped = false

  constructor(options: AppsFileOptions) {
    this.#options = { ...DEFAULTS, ...options }
  }

  get status(): Status<'file'> {
    return { state: this.#isBad ? 'error' : 'ok', reason: null }
  }

  async start(): Promise<void> {
    const { path, pollMs } = this.#options
    let read = await this.#read()
    for (let poll = 1; read.kind === 'changing' && poll < MAX_CHANGING_POLLS; poll++) {
      await new Promise((resolve) => setTimeout(resolve, pollMs))
      read = await this.#read()
    }
    if (read.kind === 'mistakes') throw new Error(describeMistakes(path, read.mistakes))
    if (read.kind === 'late') throw new Error(describeMistakes(path, [this.#describeLate()]))
    if (read.kind !== 'apps') throw new Error(describeMistakes(path, [CHANGING]))
    this.#use(read)
    this.#setHandled(read.identity, 'good')
    this.#schedulePoll()
  }

  find(appKey: string): App | 'unknown' {
    return this.#apps.find(appKey, this.#options.clock())
  }

  findById(appId: string): App | 'unknown' {
    return this.#apps.findById(appId)
  }

  findReader(hash: string): App | 'unknown' {
    return this.#apps.findReader(hash)
  }

  all(): Iterable<App> {
    return this.#apps.all()
  }

  /** Reads the file at the next poll, changed or not. */
  reread(): void {
    this.#handled = null
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
    this.#thread?.stop()
  }

  #schedulePoll(): void {
    // The next poll is scheduled after this one, so that they never overlap on a slow disk.
    this.#timer = setTimeout(async () => {
      const identity = await this.#readIdentity()
      try {
        await this.#poll(identity)
      } catch (error) {
        this.#setHandled(identity, 'bad')
        this.#fail([`polling it failed: ${errorMessage(error)}`])
      }
      if (!this.#isStopped) this.#schedulePoll()
    }, this.#options.pollMs).unref()
  }

  /** Waits until the disk answers: another stat would wait as well and hold another thread. */
  async #readIdentity(): Promise<string> {
    const timer = setTimeout(() => this.#reportLate(), this.#options.readTimeoutMs).unref()
    const found = await stat(this.#options.path).catch(() => null)
    clearTimeout(timer)
    return identityOf(found)
  }

  async #poll(seenIdentity: string): Promise<void> {
    const isKnown = seenIdentity === this.#handled && performance.now() < this.#rereadAtMs
    if (this.#isStopped || (isKnown && !this.#isLate)) return
    const read = await this.#read()
    if (this.#isStopped) return
    if (read.kind === 'late') {
      this.#reportLate()
      await this.#thread?.ended
      return
    }
    this.#isLate = false
    switch (read.kind) {
      case 'apps':
        this.#use(read)
        return this.#handleGood(read.identity, true)
      case 'same':
        return this.#handleGood(read.identity, this.#isBad)
      case 'changing':
        return this.#rereadAtNextPoll()
      case 'mistakes':
        return this.#handleBad(read.identity ?? seenIdentity, read.mistakes)
    }
  }

  #read(): AppsThread['answer'] {
    const { path, readTimeoutMs } = this.#options
    this.#thread = startAppsThread({ path, knownDigest: this.#digest }, readTimeoutMs)
    return this.#thread.answer
  }

  #reportLate(): void {
    if (this.#isStopped || this.#isLate) return
    this.#isLate = true
    this.#fail([this.#describeLate()])
  }

  #describeLate(): string {
    return `no answer from the disk in ${this.#options.readTimeoutMs / 1000} s`
  }

  #use(read: Extract<AppsRead, { kind: 'apps' }>): void {
    this.#apps = read.apps
    this.#digest = read.digest
  }

  #handleGood(identity: string, isNews: boolean): void {
    // A file that was read again and is unchanged is not read for a third time.
    if (identity !== this.#handled || isNews) this.#setHandled(identity, 'good')
    else this.#rereadAtMs = Number.POSITIVE_INFINITY
    this.#isBad = false
    if (isNews) this.#options.onReload(this.#apps.count)
  }

  #handleBad(identity: string, mistakes: readonly string[]): void {
    if (identity === this.#badOnce) {
      this.#setHandled(identity, 'bad')
      this.#fail(mistakes)
    } else if (identity === this.#handled && this.#isBad) {
      this.#setHandled(identity, 'bad')
    } else {
      this.#badOnce = identity
      this.#rereadAtNextPoll()
    }
  }

  #setHandled(identity: string, how: 'good' | 'bad'): void {
    this.#handled = identity
    this.#badOnce = null
    this.#changingPolls = 0
    this.#rereadAtMs = performance.now() + this.#options.rereadAfterMs[how]
  }

  #rereadAtNextPoll(): void {
    this.#handled = null
    if (++this.#changingPolls === MAX_CHANGING_POLLS) this.#fail([CHANGING])
  }

  #fail(reasons: readonly string[]): void {
    this.#isBad = true
    this.#options.onBadFile(reasons)
  }
}
