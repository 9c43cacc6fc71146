// In place of the pool where a service runs in a test's own process, which has no built threads: decodes each body at
// once.

import { createDecoder } from '../../src/decode/decoder.ts'
import type { DecodePoolOptions } from '../../src/decode/pool.ts'
import { RunScanner } from '../../src/decode/run-scanner.ts'

export class DirectPool {
  readonly waiting = 0
  readonly #options: DecodePoolOptions
  readonly #scanner: RunScanner

  constructor(options: DecodePoolOptions) {
    this.#options = options
    this.#scanner = new RunScanner(options.memory, createDecoder(options.decoder, options.memory.bytes))
  }

  async start(): Promise<void> {}

  async stop(): Promise<void> {}

  submit(slot: number): void {
    queueMicrotask(() => {
      const notes = this.#scanner.scan({ first: slot, count: 1 })
      const validation = notes === null ? null : (notes[0].validation ?? this.#scanner.explain(slot))
      this.#options.onDecoded(slot, validation)
    })
  }
}
