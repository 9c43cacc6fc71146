// Lines of the log that anybody can bring about: one a second of each kind, so that nobody can fill a disk with them.

const EVERY_MS = 1000

/** The next line says how many like it were left out. @param {(line: string) => void} [print] */
export function limitedLog(print = console.error, now = () => performance.now()) {
  /** @type {Map<string, { atMs: number, leftOut: number }>} */
  const kinds = new Map()
  return (/** @type {string} */ kind, /** @type {string} */ line) => {
    const { atMs, leftOut } = kinds.get(kind) ?? { atMs: Number.NEGATIVE_INFINITY, leftOut: 0 }
    if (now() - atMs < EVERY_MS) kinds.set(kind, { atMs, leftOut: leftOut + 1 })
    else {
      kinds.set(kind, { atMs: now(), leftOut: 0 })
      print(`${line}${leftOut > 0 ? ` (and ${leftOut} more such lines, not written)` : ''}`)
    }
  }
}
