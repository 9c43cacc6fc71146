// Several front ends as one service: one start, one page of metrics, one state of health, one stop.

import { type AskedHealth, type Part, servicePart } from '../health.ts'
import type { Log } from '../observe/log.ts'
import { mergePages, PAGE_CONTENT_TYPE } from '../observe/merged-page.ts'
import { MetricsPage } from '../observe/page.ts'
import { Place, type StartFrontEnd } from './place.ts'

export interface SupervisorOptions {
  readonly log: Log
  readonly processes: number
  /** How long a front end may drain before it is killed. */
  readonly killAfterMs: number
}

export class Supervisor {
  readonly contentType = PAGE_CONTENT_TYPE
  readonly health: AskedHealth = { ready: () => this.#isReady(), parts: () => this.#parts() }
  readonly #places: readonly Place[]
  readonly #killAfterMs: number
  readonly #ownPage = new MetricsPage()
  #hasStarted = false
  #isStopping = false

  constructor({ log, processes, killAfterMs }: SupervisorOptions) {
    this.#places = Array.from({ length: processes }, (_, at) => new Place(at + 1, log))
    this.#killAfterMs = killAfterMs
    const places = this.#places
    this.#ownPage.numbers('sluice_front_ends', 'gauge', 'Front ends that serve. No series with one process.', [
      { labels: {}, read: () => places.filter((place) => place.isServing).length },
    ])
    this.#ownPage.numbers('sluice_front_end_restarts_total', 'counter', 'Front ends started after one that ended.', [
      { labels: {}, read: () => places.reduce((restarts, place) => restarts + place.restarts, 0) },
    ])
  }

  /** Resolves when all serve. Rejects with a StartError where one cannot; the others run until `stop`. */
  async start(startFrontEnd: StartFrontEnd): Promise<void> {
    // It was stopped before it started, and the process is about to end.
    if (this.#isStopping) return new Promise(() => {})
    await Promise.all(this.#places.map((place) => place.start(startFrontEnd)))
    this.#hasStarted = true
  }

  async scrape(): Promise<string> {
    const answered = await Promise.all(this.#places.map((place) => place.refresh()))
    // No await from here on, so that a later page never shows smaller counters.
    return mergePages(this.#places.map((place, at) => place.counted(answered[at]))) + this.#ownPage.text()
  }

  /**
   * The service is ready while one front end is: the kernel passes connections only to those that listen, and one that
   * ended is replaced soon. To report 503 for that would turn it into an outage.
   */
  async #isReady(): Promise<boolean> {
    if (!this.#hasStarted || this.#isStopping) return false
    const reports = await Promise.all(this.#places.map((place) => place.health()))
    return reports.some((report) => report?.ready ?? false)
  }

  async #parts(): Promise<readonly Part[]> {
    const all = this.#places.map(async (place): Promise<readonly Part[]> => {
      const report = await place.health()
      const parts = report?.parts ?? [servicePart(place.isServing ? 'silent' : 'starting')]
      return parts.map((part) => Object.assign({ frontEnd: place.number }, part))
    })
    return (await Promise.all(all)).flat()
  }

  /** Drains all at the same time. Rejects where one failed to. */
  async stop(): Promise<void> {
    this.#isStopping = true
    const faults = await Promise.all(this.#places.map((place) => place.stop(this.#killAfterMs)))
    const found = faults.filter((fault) => fault !== null)
    if (found.length > 0) throw new Error(found.join(', '))
  }

  /** Kills all without a drain. */
  kill(): void {
    for (const place of this.#places) place.kill()
  }
}
