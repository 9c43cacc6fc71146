// A histogram for the path of a request: fixed buckets in typed arrays, so that an observation allocates nothing and
// costs a few comparisons.

export class Histogram {
  /** Upper bounds, inclusive and ascending; larger values count towards +Inf only. */
  readonly bounds: Float64Array
  /** Observations per bucket, not cumulative. The last bucket is +Inf. */
  readonly counts: Float64Array
  /** In an array, since V8 would allocate a new heap number for a plain field on every addition. */
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
    // Linear, since most observations fall into the first few buckets, where it is faster than a binary search.
    while (bucket < bounds.length && value > bounds[bucket]) bucket++
    this.counts[bucket] += 1
    this.#sum[0] += value
  }
}
