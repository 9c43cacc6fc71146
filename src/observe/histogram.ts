// A histogram for the request's path: fixed buckets in typed arrays, so that an observation allocates nothing
// and costs about as much as a few comparisons.

export class Histogram {
  /** Upper bounds, inclusive and ascending; what lies above the last counts towards +Inf only. */
  readonly bounds: Float64Array
  /** Observations in each bucket by itself (not cumulative); one more than there are bounds. */
  readonly counts: Float64Array
  /** The sum lives in an array too: as a plain field it would be boxed anew on every addition. */
  readonly #sum = new Float64Array(1)

  constructor(bounds: readonly number[]) {
    for (let index = 1; index < bounds.length; index++) {
      if (!(bounds[index - 1] < bounds[index])) throw new RangeError('histogram bounds must ascend')
    }
    this.bounds = Float64Array.from(bounds)
    this.counts = new Float64Array(bounds.length + 1)
  }

  get sum(): number {
    return this.#sum[0]
  }

  observe(value: number): void {
    const bounds = this.bounds
    let bucket = 0
    // A walk from the smallest bound: most observations fall into the first few, where it beats a binary search.
    while (bucket < bounds.length && value > bounds[bucket]) bucket++
    this.counts[bucket] += 1
    this.#sum[0] += value
  }
}
