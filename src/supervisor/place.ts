// One of a supervisor's places: it holds a front end, puts another there when that one ends, and keeps what all of
// them have counted.

import type { ChildProcess } from 'node:child_process'
import { StartError } from '../lib/errors.ts'
import type { Log } from '../observe/log.ts'
import { countedIn, EMPTY_PAGE, type Page, readPage } from '../observe/merged-page.ts'
import { type Ending, FrontEndProcess } from './front-end-process.ts'
import type { HealthReport } from './messages.ts'

/** Before another front end starts: doubled each time, and back to the first after one that lived. */
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5000
const LIVED_MS = 30_000
/** A front end that leaves so many looks in a row without an answer hangs, and clients on its connections with it. */
const LOOK_INTERVAL_MS = 5000
const MOST_LOOKS_UNANSWERED = 3
/** Well within the 10 s that Prometheus waits for a page. */
const PAGE_WAIT_MS = 2000
/** Twice within the second that a probe of Kubernetes waits, since a verbose answer asks twice. */
const HEALTH_WAIT_MS = 400

export type StartFrontEnd = (place: number) => ChildProcess

export class Place {
  readonly number: number
  readonly #log: Log
  #present: FrontEndProcess | null = null
  #past: Page = EMPTY_PAGE
  #last: Page = EMPTY_PAGE
  #pauseMs = FIRST_PAUSE_MS
  #launchedAtMs = 0
  #launching: NodeJS.Timeout | undefined
  #looking: NodeJS.Timeout | undefined
  #looksUnanswered = 0
  #restarts = 0
  #isStopping = false
  /** Told once, that the first front end serves, which is null, or how it ended before it did. */
  #onStarted: ((failure: Ending | null) => void) | null = null
  /** Told of the end of the last front end. */
  #onStopped: ((ending: Ending) => void) | null = null

  /** `number` counts from 1. */
  constructor(number: number, log: Log) {
    this.number = number
    this.#log = log.child({ front_end: number })
  }

  get isServing(): boolean {
    return this.#present?.isServing ?? false
  }

  /** Front ends that were put here after one that ended. */
  get restarts(): number {
    return this.#restarts
  }

  /** Until the first front end serves. Rejects with a StartError where it ends before: another would do no better. */
  start(startFrontEnd: StartFrontEnd): Promise<void> {
    this.#looking = setInterval(() => void this.#look(), LOOK_INTERVAL_MS)
    return new Promise((resolve, reject) => {
      this.#onStarted = (failure) => {
        this.#onStarted = null
        if (failure === null) resolve()
        else reject(new StartError(failure.why ?? `front end ${this.number} ${howEnded(failure)} before it served`))
      }
      this.#launch(startFrontEnd)
    })
  }

  #launch(startFrontEnd: StartFrontEnd): void {
    this.#launchedAtMs = performance.now()
    this.#looksUnanswered = 0
    this.#present = new FrontEndProcess(startFrontEnd(this.number), {
      onServing: () => this.#serves(),
      onPage: (text) => {
        this.#last = readPage(text)
      },
      onEnded: (ending) => this.#ended(ending, startFrontEnd),
    })
  }

  #serves(): void {
    // Told to stop while it started: neither a start nor a failure.
    if (this.#onStopped !== null) return
    if (this.#onStarted === null) this.#log.info('the front end serves')
    else this.#onStarted(null)
  }

  #ended(ending: Ending, startFrontEnd: StartFrontEnd): void {
    const pid = this.#present?.pid
    this.#present = null
    this.#past = countedIn(this.#past, this.#last, false)
    this.#last = EMPTY_PAGE
    if (this.#onStopped !== null) return this.#onStopped(ending)
    if (this.#onStarted !== null) return this.#onStarted(ending)
    if (performance.now() - this.#launchedAtMs >= LIVED_MS) this.#pauseMs = FIRST_PAUSE_MS
    this.#log.error({ pid, ...ending, pause_ms: this.#pauseMs }, 'the front end ended, and another is started')
    this.#launching = setTimeout(() => {
      this.#restarts++
      this.#launch(startFrontEnd)
    }, this.#pauseMs)
    this.#pauseMs = Math.min(2 * this.#pauseMs, LONGEST_PAUSE_MS)
  }

  async #look(): Promise<void> {
    const looked = this.#present
    if (looked === null || !looked.isServing) return
    const isAnswered = (await looked.health(LOOK_INTERVAL_MS)) !== null
    if (this.#present !== looked || this.#isStopping) return
    this.#looksUnanswered = isAnswered ? 0 : this.#looksUnanswered + 1
    if (this.#looksUnanswered < MOST_LOOKS_UNANSWERED) return
    this.#log.error({ pid: looked.pid }, 'the front end does not answer, and is killed')
    looked.signal('SIGKILL')
  }

  /** null: it does not answer. */
  async health(): Promise<HealthReport | null> {
    return (await this.#present?.health(HEALTH_WAIT_MS)) ?? null
  }

  /** Asks for a page; false: `counted` goes by an earlier one. */
  async refresh(): Promise<boolean> {
    const page = await this.#present?.page(PAGE_WAIT_MS)
    return typeof page === 'string'
  }

  counted(answered: boolean): Page {
    return countedIn(this.#past, this.#last, answered)
  }

  /** Lets the front end drain, and kills it after `killAfterMs`. Gives what went wrong, or null. */
  async stop(killAfterMs: number): Promise<string | null> {
    this.#isStopping = true
    clearTimeout(this.#launching)
    clearInterval(this.#looking)
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
    // Before its handlers are in place, SIGTERM simply ends it, and nothing is lost.
    const isWell = ending.code === 0 || (!hasServed && ending.signal === 'SIGTERM')
    return isWell ? null : `front end ${this.number} ${howEnded(ending)}`
  }

  kill(): void {
    this.#present?.signal('SIGKILL')
  }
}

function howEnded({ code, signal }: Ending): string {
  if (signal !== null) return `was ended by ${signal}`
  return code === null ? 'could not be started' : `ended with code ${code}`
}
