// Creates the memory for bodies, and for what each scanner has learnt of them. All else of a scanner's state is in its
// own instance, so that the instances of all threads can share one memory.
//
//   bodies │ look-ahead │ padding to a page ││ areas, one for each scanner ││ the number of areas that are taken

/** The scanner loads at most this many bytes beyond a body's end. Bytes after the sentinel do not affect its result. */
export const LOOK_AHEAD_BYTES = 64

/** What a scanner may have learnt: 32 layouts of 8 KiB, and which is where (src/decode/assembly/choice.ts). */
const AREA_BYTES = 270_336
/** More than a pool has threads (SLUICE_PARSERS). A scanner that comes later, after threads were started anew, learns nothing. */
const MAX_AREAS = 320

const PAGE_BYTES = 65_536
/** Of which memory is used only where something is written. */
const AFTER_BODIES_BYTES = MAX_AREAS * AREA_BYTES + PAGE_BYTES

/** `sizeBytes` for bodies, plus the look-ahead after the last one, and the areas of scanners. */
export function createMemory(sizeBytes: number): WebAssembly.Memory {
  const pages = Math.ceil((sizeBytes + LOOK_AHEAD_BYTES) / PAGE_BYTES) + AFTER_BODIES_BYTES / PAGE_BYTES
  return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
}

/** Where the room for bodies ends, with the look-ahead after the last one. */
export function endOfBodies(memory: WebAssembly.Memory): number {
  return memory.buffer.byteLength - AFTER_BODIES_BYTES
}

/** The address of an area that no other scanner has, in whatever thread; 0: there is none left. */
export function takeArea(memory: WebAssembly.Memory): number {
  const taken = Atomics.add(new Int32Array(memory.buffer, memory.buffer.byteLength - PAGE_BYTES, 1), 0, 1)
  return taken < MAX_AREAS ? endOfBodies(memory) + taken * AREA_BYTES : 0
}
