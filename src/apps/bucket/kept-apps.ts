// The app records that a node read last from the bucket, kept in a file of its own for a start without NATS.

import { rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Status } from '../../contract/health.ts'
import { errorCode, errorMessage } from '../../lib/errors.ts'
import { syncFolder } from '../../lib/folder.ts'
import { formatSpan } from '../../lib/format.ts'
import { openNew } from '../../lib/new-file.ts'
import type { OnNotice } from '../../lib/notice.ts'
import { readRegular } from '../../lib/regular-file.ts'
import { type Timer, type Timers } from '../../lib/timers.ts'
import type { App, AppDirectory, AppLookup } from '../app.ts'
import { AppIndex } from '../app-index.ts'
import { bytesPerMinuteFor } from '../plans.ts'
import type { BucketApps } from './bucket-apps.ts'

const VERSION = 1
const LOOK_MS = 500
/** After a write, so many times as long: records that change all the time are not written all the time. */
const PAUSES = 100
/** However long a disk took. */
const MAX_PAUSE_MS = 60_000
/** Made into text in one turn of the event loop. */
const APPS_A_TURN = 500

interface Kept {
  readonly readAtMs: number
  readonly apps: AppIndex
}

export interface KeptAppsOptions {
  readonly bucket: BucketApps
  readonly path: string
  readonly timers: Timers
  readonly onNotice: OnNotice
}

export class KeptApps implements AppDirectory {
  readonly #options: KeptAppsOptions
  readonly #kept: Kept | null
  readonly #timer: Timer
  /** Of what the file has. */
  #changes = -1
  #pausedUntilMs = Number.NEGATIVE_INFINITY
  #writing: Promise<void> = Promise.resolve()
  #isWriting = false
  #problem: string | null = null

  static async open(options: KeptAppsOptions): Promise<KeptApps> {
    const kept = await readKept(options)
    if (kept !== null && !options.bucket.isLoaded)
      options.onNotice(
        `until NATS gives the app records, those of ${new Date(kept.readAtMs).toISOString()} hold, which this node keeps in ${options.path}: ${kept.apps.count}`,
      )
    return new KeptApps(options, kept)
  }

  private constructor(options: KeptAppsOptions, kept: Kept | null) {
    this.#options = options
    this.#kept = kept
    this.#timer = options.timers.setInterval(() => this.#look(), LOOK_MS)
    this.#timer.unref()
  }

  /** There are records to judge requests by. */
  get isLoaded(): boolean {
    return this.#options.bucket.isLoaded || this.#kept !== null
  }

  get status(): Status<'bucket'> {
    const { bucket, timers } = this.#options
    if (bucket.isLoaded || this.#kept === null) return bucket.status
    return { state: 'kept', reason: `read ${formatSpan(Math.max(0, timers.nowMs() - this.#kept.readAtMs))} ago` }
  }

  find(appKey: string): AppLookup {
    const { bucket, timers } = this.#options
    return this.#inForce?.find(appKey, timers.nowMs()) ?? bucket.find(appKey)
  }

  findById(appId: string): AppLookup {
    return (this.#inForce ?? this.#options.bucket).findById(appId)
  }

  findReader(hash: string): AppLookup {
    return (this.#inForce ?? this.#options.bucket).findReader(hash)
  }

  all(): Iterable<App> {
    return (this.#inForce ?? this.#options.bucket).all()
  }

  /** The kept ones; null: those of the bucket are. */
  get #inForce(): AppIndex | null {
    return this.#options.bucket.isLoaded ? null : (this.#kept?.apps ?? null)
  }

  async stop(): Promise<void> {
    this.#options.timers.clear(this.#timer)
    await this.#writing
    if (this.#isBehind) await this.#write()
    await this.#options.bucket.stop()
  }

  get #isBehind(): boolean {
    const { bucket } = this.#options
    return bucket.isLoaded && bucket.changes !== this.#changes
  }

  #look(): void {
    const { timers } = this.#options
    const atMs = timers.monotonicMs()
    if (this.#isWriting || atMs < this.#pausedUntilMs || !this.#isBehind) return
    this.#isWriting = true
    this.#writing = this.#write().finally(() => {
      this.#isWriting = false
      const endAtMs = timers.monotonicMs()
      this.#pausedUntilMs = endAtMs + Math.min(PAUSES * (endAtMs - atMs), MAX_PAUSE_MS)
    })
  }

  async #write(): Promise<void> {
    const { bucket, path, timers, onNotice } = this.#options
    const changes = bucket.changes
    try {
      const file = await openNew(`${path}.new`, 0o600)
      // Those of one moment, so that the head has their number. writeFile, since one write may take a part and no error.
      const apps = [...bucket.all()]
      try {
        const head = { version: VERSION, read_at: new Date(timers.nowMs()).toISOString(), apps: apps.length }
        await file.writeFile(`${JSON.stringify(head)}\n`)
        for (let at = 0; at < apps.length; at += APPS_A_TURN) {
          const lines = apps.slice(at, at + APPS_A_TURN).map((app) => `${JSON.stringify(app)}\n`)
          await file.writeFile(lines.join(''))
          await nextTurn()
        }
        await file.sync()
      } finally {
        await file.close()
      }
      await rename(`${path}.new`, path)
      await syncFolder(dirname(path))
      this.#changes = changes
      this.#problem = null
    } catch (error) {
      const problem = errorMessage(error)
      if (problem !== this.#problem)
        onNotice(`the app records could not be kept for a start without NATS: ${problem}; it is tried again`)
      this.#problem = problem
    }
  }
}

/** null: there is no such file, or it cannot be used, which `onNotice` reports. */
async function readKept({ path, onNotice }: KeptAppsOptions): Promise<Kept | null> {
  try {
    const [head, ...lines] = (await readRegular(path)).split('\n')
    const { version, read_at: readAt, apps: count } = JSON.parse(head) as Record<string, unknown>
    const readAtMs = Date.parse(String(readAt))
    // An app that is missing would be answered 401, upon which SDKs throw their events away.
    if (version !== VERSION || Number.isNaN(readAtMs) || lines.pop() !== '' || lines.length !== count)
      throw new Error('it is not whole')
    const apps = new AppIndex()
    for (const line of lines) apps.add(appOf(line))
    // Nobody's key would be known, where each may have been made since.
    return apps.count === 0 ? null : { readAtMs, apps }
  } catch (error) {
    if (errorCode(error) !== 'ENOENT')
      onNotice(`the kept app records in ${path} cannot be used: ${errorMessage(error)}; those of NATS are waited for`)
    return null
  }
}

function appOf(line: string): App {
  const app = JSON.parse(line) as App
  const { appKey, appId, eventsPerMinute, eventsPerMonth, previousKeys, readKeys } = app
  const isWhole =
    [appKey, appId].every((text) => typeof text === 'string') && Array.isArray(previousKeys) && Array.isArray(readKeys)
  if (!isWhole || !(eventsPerMinute > 0) || !(eventsPerMonth > 0)) throw new Error('a record in it is not one')
  // An earlier version kept none.
  return { ...app, bytesPerMinute: app.bytesPerMinute ?? bytesPerMinuteFor(eventsPerMinute) }
}
