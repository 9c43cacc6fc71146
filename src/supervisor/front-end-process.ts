// A supervisor's hold on one front end: what it says, what it is asked, and how it ended.

import type { ChildProcess } from 'node:child_process'
import type { Asking, HealthReport, Question, Report } from './messages.ts'

export interface Ending {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** What it said an operator must mend. */
  readonly why: string | null
}

export interface FrontEndEvents {
  readonly onServing: () => void
  /** A page it gave, asked for or not. */
  readonly onPage: (text: string) => void
  /** Comes once, after all it said. */
  readonly onEnded: (ending: Ending) => void
}

export class FrontEndProcess {
  readonly #child: ChildProcess
  readonly #events: FrontEndEvents
  readonly #page = new Answer<string>()
  readonly #health = new Answer<HealthReport>()
  #why: string | null = null
  #isServing = false
  #isOver = false

  constructor(child: ChildProcess, events: FrontEndEvents) {
    this.#child = child
    this.#events = events
    child.on('message', (report: Report) => this.#onReport(report))
    // Unlike `exit` it comes after the last message.
    child.once('close', (code, signal) => this.#onOver(code, signal))
    child.on('error', () => {
      // It could not be started; of a message that could not be sent, `close` will tell.
      if (child.pid === undefined) this.#onOver(null, null)
    })
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** It has said that it serves, and has not ended. */
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
    const isAsked = answer.isAwaited
    const answered = answer.within(timeoutMs)
    // With a callback, a lost channel is no error by itself: it closes, and the process ends.
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

/**
 * The answer to one question, which all who ask while it is awaited share: a front end that hangs is asked once, and
 * nothing piles up before it.
 */
class Answer<T> {
  readonly #waiting = new Set<(answer: T | null) => void>()
  #isAwaited = false

  /** It has been asked for and has not come, though those who asked may have left. */
  get isAwaited(): boolean {
    return this.#isAwaited
  }

  within(timeoutMs: number): Promise<T | null> {
    this.#isAwaited = true
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
    this.#isAwaited = false
    for (const answered of this.#waiting) answered(answer)
  }
}
