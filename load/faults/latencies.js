// @ts-check
// How long answers took, by what went on meanwhile.

/** Each is so much longer than the one before. */
const GROWTH = 1.02
const FIRST_MS = 0.05

export class Latencies {
  /** Counts by place, whose bound is `FIRST_MS * GROWTH ** place`. @type {Map<string, number[]>} */
  #phases = new Map()

  /** @param {string} phase @param {number} ms */
  add(phase, ms) {
    const counts = this.#phases.get(phase) ?? []
    this.#phases.set(phase, counts)
    const place = Math.max(0, Math.ceil(Math.log(ms / FIRST_MS) / Math.log(GROWTH)))
    counts[place] = (counts[place] ?? 0) + 1
  }

  /** In ms, right within 2%. @param {string} phase @param {number} share */
  quantile(phase, share) {
    const counts = this.#phases.get(phase) ?? []
    let left = counts.reduce((sum, count) => sum + count, 0) * share
    for (const [place, count = 0] of counts.entries()) {
      left -= count
      if (left <= 0 && count > 0) return FIRST_MS * GROWTH ** place
    }
    return null
  }

  /** @returns {[string, string][]} */
  rows() {
    const shown = (/** @type {number | null} */ ms) => (ms === null ? '-' : ms.toFixed(1))
    return [...this.#phases.keys()]
      .filter((phase) => phase !== '')
      .map((phase) => {
        const [median, most] = [0.5, 0.99].map((share) => shown(this.quantile(phase, share)))
        const count = this.#phases.get(phase)?.reduce((sum, each) => sum + each, 0)
        return [`202 ${phase}, ms`, `p50 ${median}, p99 ${most} (${count} answers)`]
      })
  }
}
