// Makes the memory in which bodies lie while they are decoded. It holds nothing else: all that the scanner knows
// lies in its instance, so that the instances of many threads share one memory and cannot meet in it.

/** How far beyond a body's end the scanner loads at most. It decides nothing by what it finds beyond the sentinel. */
export const LOOK_AHEAD_BYTES = 64

const PAGE_BYTES = 65_536

/** Memory for so many bytes of bodies, and for what is loaded beyond the last of them. */
export function createMemory(sizeBytes: number): WebAssembly.Memory {
  const pages = Math.ceil((sizeBytes + LOOK_AHEAD_BYTES) / PAGE_BYTES)
  return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
}
