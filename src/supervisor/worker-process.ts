// The supervisor's side of one worker process: its reports, the questions to it, and how it ended.

import type { ChildProcess } from 'node:child_process'
import type { Asking, HealthReport, Question, Report } from './messages.ts'

export interface Ending {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** The reason it gave for a failed start, which an operator must fix. */
  readonly why: string | null
}

export interface WorkerEvents {
  readonly onServing: () => void
  /** It sent a page, on request or before its end. */
  readonly onPage: (text: string) => void
  /** Called once, after all its reports. */
  readonly onEnded: (ending: Ending) => void
}

export class WorkerProcess {
  readonly #child: ChildProcess
  readonly #events: WorkerEvents
  readonly #page = new Answer<string>()
  readonly #health = new Answer<HealthReport>()
  #why: string | null = null
  #isServing = false
  #isOver = false

  constructor(child: ChildProcess, events: WorkerEvents) {
    this.#child = child
    this.#events = events
    child.on('message', (report: Report) => this.#onReport(report))
    // Unlike `exit`, `close` comes after the last message.
    child.once('close', (code, signal) => this.#onOver(code, signal))
    child.on('error', () => {
      // Without a pid it could not be started. After an error of a running process `close` follows.
      if (child.pid === undefined) this.#onOver(null, null)
    })
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** It has reported that it serves, and has not ended. */
  get isServing(): boolean {
    return this.#isServing && !this.#isOver
  }

  /** null: no answer in time. */
  page(timeoutMs: number): Promise<string | null> {
    return this.#ask('page', this.#page, timeoutMs)
  }

  /** null: no answer in time. */
  health(timeoutMs: number): Promise<HealthReport | null> {
    return this.#ask('health', this.#health, timeoutMs)
  }

  async #ask<T>(question: Question, answer: Answer<T>, timeoutMs: number): Promise<T | null> {
    if (!this.isServing) return null
    const isAsked = answer.isPending
    const answered = answer.within(timeoutMs)
    // The callback keeps a lost channel from being an error event: `close` follows anyway.
    if (!isAsked) this.#child.send({ ask: question } satisfies Asking, () => {})
    return answered
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name)
  }

  #onReport(report: Report): void {
    switch (report.kind) {
      case 'serving':
        this.#isServing = true
        return this.#events.onServing()
      case 'refused':
        this.#why = report.why
        return
      case 'page':
        if (report.text !== null) this.#events.onPage(report.text)
        return this.#page.settle(report.text)
      case 'health':
        return this.#health.settle(report)
    }
  }

  #onOver(code: number | null, signal: NodeJS.Signals | null): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#page.settle(null)
    this.#health.settle(null)
    this.#events.onEnded({ code, signal, why: this.#why })
  }
}

/** The answer to one question, shared by all callers that wait for it, so that a worker process that hangs is asked once. */
class Answer<T> {
  readonly #waiting = new Set<(answer: T | null) => void>()
  #isPending = false

  /** The question was sent and not answered yet, even if its callers have timed out. */
  get isPending(): boolean {
    return this.#isPending
  }

  within(timeoutMs: number): Promise<T | null> {
    this.#isPending = true
    return new Promise((resolve) => {
      const answered = (answer: T | null): void => {
        clearTimeout(late)
        this.#waiting.delete(answered)
        resolve(answer)
      }
      const late = setTimeout(answered, timeoutMs, null)
      this.#waiting.add(answered)
    })
  }

  settle(answer: T | null): void {
    this.#isPending = false
    for (const answered of this.#waiting) answered(answer)
  }
}
