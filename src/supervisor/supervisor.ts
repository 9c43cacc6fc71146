// Several worker processes as one service: one start, one page of metrics, one state of health, one stop.

import { type AskedHealth, type Part, servicePart } from '../contract/health.ts'
import { addLinesDropped } from '../observe/gauges.ts'
import type { Log } from '../observe/log.ts'
import { mergePages, PAGE_CONTENT_TYPE, readPage } from '../observe/merged-page.ts'
import { MetricsPage } from '../observe/page.ts'
import { type StartWorker, WorkerSlot } from './worker-slot.ts'

export interface SupervisorOptions {
  readonly log: Log
  /** By this process itself. */
  readonly linesDropped: () => number
  readonly processes: number
  /** How long a worker process may drain before it is killed. */
  readonly killAfterMs: number
}

export class Supervisor {
  readonly contentType = PAGE_CONTENT_TYPE
  readonly health: AskedHealth = { ready: () => this.#isReady(), parts: () => this.#parts() }
  readonly #slots: readonly WorkerSlot[]
  readonly #killAfterMs: number
  readonly #ownPage = new MetricsPage()
  #hasStarted = false
  #isStopping = false

  constructor({ log, linesDropped, processes, killAfterMs }: SupervisorOptions) {
    this.#slots = Array.from({ length: processes }, (_, at) => new WorkerSlot(at + 1, log))
    this.#killAfterMs = killAfterMs
    const slots = this.#slots
    this.#ownPage.numbers('sluice_workers', 'gauge', 'Worker processes that serve. No series with one process.', [
      { labels: {}, read: () => slots.filter((slot) => slot.isServing).length },
    ])
    this.#ownPage.numbers('sluice_worker_restarts_total', 'counter', 'Worker processes started after one that ended.', [
      { labels: {}, read: () => slots.reduce((restarts, slot) => restarts + slot.restarts, 0) },
    ])
    addLinesDropped(this.#ownPage, linesDropped)
  }

  /** Resolves when all serve. Rejects with a StartError where one cannot; the others run until `stop`. */
  async start(startWorker: StartWorker): Promise<void> {
    // It was stopped before it started, and the process is about to end.
    if (this.#isStopping) return new Promise(() => {})
    await Promise.all(this.#slots.map((slot) => slot.start(startWorker)))
    this.#hasStarted = true
  }

  async scrape(): Promise<string> {
    const answered = await Promise.all(this.#slots.map((slot) => slot.refresh()))
    // No await from here on, so that a later page never shows smaller counters.
    const pages = this.#slots.map((slot, at) => slot.counted(answered[at]))
    return mergePages([...pages, readPage(this.#ownPage.text())])
  }

  /**
   * The service is ready while one worker process is: the kernel passes connections only to those that listen, and one that
   * ended is replaced soon. To report 503 for that would turn it into an outage.
   */
  async #isReady(): Promise<boolean> {
    if (!this.#hasStarted || this.#isStopping) return false
    const reports = await Promise.all(this.#slots.map((slot) => slot.health()))
    return reports.some((report) => report?.ready ?? false)
  }

  async #parts(): Promise<readonly Part[]> {
    const all = this.#slots.map(async (slot): Promise<readonly Part[]> => {
      const report = await slot.health()
      const parts = report?.parts ?? [servicePart(slot.isServing ? 'silent' : 'starting')]
      return parts.map((part) => Object.assign({ worker: slot.number }, part))
    })
    return (await Promise.all(all)).flat()
  }

  /** Drains all at the same time. Rejects where one failed to. */
  async stop(): Promise<void> {
    this.#isStopping = true
    const faults = await Promise.all(this.#slots.map((slot) => slot.stop(this.#killAfterMs)))
    const found = faults.filter((fault) => fault !== null)
    if (found.length > 0) throw new Error(found.join(', '))
  }

  /** Passes SIGHUP on. */
  reread(): void {
    for (const slot of this.#slots) slot.reread()
  }

  /** Kills all without a drain. */
  kill(): void {
    for (const slot of this.#slots) slot.kill()
  }
}
