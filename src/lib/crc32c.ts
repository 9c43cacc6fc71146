// CRC32C of bytes in a memory of its own. This is the JavaScript side of the WebAssembly module, whose source is
// assembly/crc32c.ts: in zlib, and in Node's crypto, there is none, and it costs a third of what native packages take.

// The file is read once.
// oxlint-disable-next-line no-restricted-imports
import { readFileSync } from 'node:fs'

/** src/ and dist/ have the same depth, so that this path is right in both. */
const MODULE = new URL('../../dist/lib/crc32c.wasm', import.meta.url)
const PAGE_BYTES = 65_536

interface Exports {
  prepare(): void
  begin(start: number): void
  add(end: number): void
  finish(end: number): number
}

let compiled: WebAssembly.Module | null = null

/** Each reserves some GB of addresses, not of memory. */
export class Crc32c {
  /** What can be checked. It begins at a page of memory. */
  readonly bytes: Buffer
  readonly #exports: Exports

  constructor(lengthBytes: number) {
    // Before the bytes lie the tables.
    const pages = 1 + Math.ceil(lengthBytes / PAGE_BYTES)
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
    compiled ??= new WebAssembly.Module(readFileSync(MODULE))
    this.#exports = new WebAssembly.Instance(compiled, { env: { memory } }).exports as unknown as Exports
    this.#exports.prepare()
    this.bytes = Buffer.from(memory.buffer, PAGE_BYTES, lengthBytes)
  }

  /** Of the bytes [start, end). */
  of(start: number, end: number): number {
    this.begin(start)
    return this.finish(end)
  }

  /** A sum that is added to while its bytes are still in the processor's cache. Another one ends it. */
  begin(start: number): void {
    this.#exports.begin(PAGE_BYTES + start)
  }

  /** The bytes before `end` are there. */
  add(end: number): void {
    this.#exports.add(PAGE_BYTES + end)
  }

  /** Of all bytes since `begin`. */
  finish(end: number): number {
    return this.#exports.finish(PAGE_BYTES + end) >>> 0
  }
}
