// A stream of server-sent events that keeps what is sent.

import type { EventSink } from '../../src/http/admin-routes.ts'

export class Sink implements EventSink {
  text = ''
  destroyed = false
  writableEnded = false
  /** What waits, since the client does not read. */
  writableLength = 0
  readonly #onWrite: (text: string) => void

  constructor(onWrite: (text: string) => void = () => {}) {
    this.#onWrite = onWrite
  }

  write(text: string): boolean {
    this.text += text
    this.#onWrite(text)
    return true
  }

  end(): this {
    this.writableEnded = true
    return this
  }
}
