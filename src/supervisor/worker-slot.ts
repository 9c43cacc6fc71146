// One slot for a worker process: starts it, replaces it when it ends, and keeps the counters of all worker processes it has had.

import type { ChildProcess } from 'node:child_process'
import { StartError } from '../lib/errors.ts'
import type { Log } from '../observe/log.ts'
import { countedIn, EMPTY_PAGE, type Page, readPage } from '../observe/merged-page.ts'
import type { HealthReport } from './messages.ts'
import { type Ending, WorkerProcess } from './worker-process.ts'

/** The pause before a replacement starts. It doubles each time, and is reset by a worker process that ran for a while. */
const MIN_PAUSE_MS = 100
const MAX_PAUSE_MS = 5000
const RESET_AFTER_MS = 30_000
/** A worker process that leaves this many health checks in a row unanswered hangs, and with it its clients: it is killed. */
const CHECK_INTERVAL_MS = 5000
const MAX_CHECKS_UNANSWERED = 3
/** Well within the 10 s that Prometheus waits for a page. */
const PAGE_TIMEOUT_MS = 2000
/** A verbose answer asks twice, and a probe of Kubernetes waits for 1 s. */
const HEALTH_TIMEOUT_MS = 400

export type StartWorker = (slot: number) => ChildProcess

export class WorkerSlot {
  readonly number: number
  readonly #log: Log
  #present: WorkerProcess | null = null
  /** The counters of former worker processes. */
  #past: Page = EMPTY_PAGE
  /** The latest page of the present worker process. */
  #latest: Page = EMPTY_PAGE
  #pauseMs = MIN_PAUSE_MS
  #launchedAtMs = 0
  #launchTimer: NodeJS.Timeout | undefined
  #checkTimer: NodeJS.Timeout | undefined
  #checksUnanswered = 0
  #restarts = 0
  #isStopping = false
  /** Called once: with null when the first worker process serves, or with how it ended before that. */
  #onStarted: ((failure: Ending | null) => void) | null = null
  /** Called when the worker process has ended, during a stop. */
  #onStopped: ((ending: Ending) => void) | null = null

  /** `number` counts from 1. */
  constructor(number: number, log: Log) {
    this.number = number
    this.#log = log.child({ worker: number })
  }

  get isServing(): boolean {
    return this.#present?.isServing ?? false
  }

  /** How many replacements were started. */
  get restarts(): number {
    return this.#restarts
  }

  /**
   * Resolves when the first worker process serves. Rejects with a StartError where it ends before; it is not replaced then.
   */
  start(startWorker: StartWorker): Promise<void> {
    this.#checkTimer = setInterval(() => void this.#check(), CHECK_INTERVAL_MS)
    return new Promise((resolve, reject) => {
      this.#onStarted = (failure) => {
        this.#onStarted = null
        if (failure === null) resolve()
        else
          reject(new StartError(failure.why ?? `worker process ${this.number} ${howEnded(failure)} before it served`))
      }
      this.#launch(startWorker)
    })
  }

  #launch(startWorker: StartWorker): void {
    this.#launchedAtMs = performance.now()
    this.#checksUnanswered = 0
    this.#present = new WorkerProcess(startWorker(this.number), {
      onServing: () => this.#serving(),
      onPage: (text) => {
        this.#latest = readPage(text)
      },
      onEnded: (ending) => this.#ended(ending, startWorker),
    })
  }

  #serving(): void {
    // It was stopped during its start, which counts neither as a start nor as a failure.
    if (this.#onStopped !== null) return
    if (this.#onStarted === null) this.#log.info('the replacement worker process is serving')
    else this.#onStarted(null)
  }

  #ended(ending: Ending, startWorker: StartWorker): void {
    const pid = this.#present?.pid
    this.#present = null
    this.#past = countedIn(this.#past, this.#latest, false)
    this.#latest = EMPTY_PAGE
    if (this.#onStopped !== null) return this.#onStopped(ending)
    if (this.#onStarted !== null) return this.#onStarted(ending)
    if (performance.now() - this.#launchedAtMs >= RESET_AFTER_MS) this.#pauseMs = MIN_PAUSE_MS
    this.#log.error(
      { pid, ...ending, pause_ms: this.#pauseMs },
      'the worker process ended: starting another after the pause',
    )
    this.#launchTimer = setTimeout(() => {
      this.#restarts++
      this.#launch(startWorker)
    }, this.#pauseMs)
    this.#pauseMs = Math.min(2 * this.#pauseMs, MAX_PAUSE_MS)
  }

  async #check(): Promise<void> {
    const checked = this.#present
    if (checked === null || !checked.isServing) return
    const isAnswered = (await checked.health(CHECK_INTERVAL_MS)) !== null
    if (this.#present !== checked || this.#isStopping) return
    this.#checksUnanswered = isAnswered ? 0 : this.#checksUnanswered + 1
    if (this.#checksUnanswered < MAX_CHECKS_UNANSWERED) return
    this.#log.error({ pid: checked.pid }, 'the worker process does not answer its health checks: killing it')
    checked.signal('SIGKILL')
  }

  /** null: no answer in time. */
  async health(): Promise<HealthReport | null> {
    return (await this.#present?.health(HEALTH_TIMEOUT_MS)) ?? null
  }

  /** Asks for a new page. false: no answer in time, so `counted` uses an earlier one. */
  async refresh(): Promise<boolean> {
    const page = await this.#present?.page(PAGE_TIMEOUT_MS)
    return typeof page === 'string'
  }

  counted(answered: boolean): Page {
    return countedIn(this.#past, this.#latest, answered)
  }

  /** Lets the worker process drain, and kills it after `killAfterMs`. Returns what went wrong, or null. */
  async stop(killAfterMs: number): Promise<string | null> {
    this.#isStopping = true
    clearTimeout(this.#launchTimer)
    clearInterval(this.#checkTimer)
    const last = this.#present
    if (last === null) return null
    const hasServed = last.isServing
    const ending = await new Promise<Ending>((resolve) => {
      const killing = setTimeout(() => last.signal('SIGKILL'), killAfterMs)
      this.#onStopped = (ended) => {
        clearTimeout(killing)
        resolve(ended)
      }
      last.signal('SIGTERM')
    })
    // A process that has not installed its handlers yet ends by SIGTERM, and loses nothing.
    const isWell = ending.code === 0 || (!hasServed && ending.signal === 'SIGTERM')
    return isWell ? null : `worker process ${this.number} ${howEnded(ending)}`
  }

  /** A worker process that still starts reads everything anyway, and would be ended by the signal. */
  reread(): void {
    if (this.isServing) this.#present?.signal('SIGHUP')
  }

  kill(): void {
    this.#present?.signal('SIGKILL')
  }
}

function howEnded({ code, signal }: Ending): string {
  if (signal !== null) return `was ended by ${signal}`
  return code === null ? 'could not be started' : `ended with code ${code}`
}
