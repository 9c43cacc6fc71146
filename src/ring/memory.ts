// Creates the memory for bodies. It holds nothing else: a scanner keeps its state in its own instance, so that the
// instances of all threads can share one memory.

/** The scanner loads at most this many bytes beyond a body's end. Bytes after the sentinel do not affect its result. */
export const LOOK_AHEAD_BYTES = 64

const PAGE_BYTES = 65_536

/** `sizeBytes` for bodies, plus the look-ahead after the last one. */
export function createMemory(sizeBytes: number): WebAssembly.Memory {
  const pages = Math.ceil((sizeBytes + LOOK_AHEAD_BYTES) / PAGE_BYTES)
  return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
}
