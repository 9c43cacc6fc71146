// What this node has seen of each partition in Redis. It goes with every call, so that a Redis that was emptied, or went
// back to an older state, is noticed by the next one.

import type { PartitionQuestion, PartitionReply } from './take.ts'

interface Seen {
  closedMinute: number
  beat: number
  /** null: no reply yet. */
  lostAtMs: number | null
  isForgotten: boolean
}

export class SeenPartitions {
  readonly #seen: Seen[]

  constructor(partitions: number) {
    this.#seen = Array.from({ length: partitions }, () => ({
      closedMinute: 0,
      beat: 0,
      lostAtMs: null,
      isForgotten: false,
    }))
  }

  get count(): number {
    return this.#seen.length
  }

  /** The limits of some partition go by shares. */
  get hasForgotten(): boolean {
    return this.#seen.some(({ isForgotten }) => isForgotten)
  }

  closedMinuteOf(partition: number): number {
    return this.#seen[partition].closedMinute
  }

  /** Of those that a call touches. `beats`: the beat of these is raised. */
  questionsOf(touched: readonly { readonly partition: number }[], beats: ReadonlySet<number>): PartitionQuestion[] {
    const partitions = new Set(beats)
    for (const { partition } of touched) partitions.add(partition)
    return Array.from(partitions, (partition) => {
      const { closedMinute, beat } = this.#seen[partition]
      return { partition, closedMinute, beat, raisesBeat: beats.has(partition) }
    })
  }

  /** `forgotten`: nothing can be taken from these yet. `lost`: of these Redis has lost data since the reply before. */
  learn(
    questions: readonly PartitionQuestion[],
    replies: readonly PartitionReply[],
  ): { forgotten: ReadonlySet<number>; lost: number[] } {
    const forgotten = new Set<number>()
    const lost: number[] = []
    for (const [at, { partition }] of questions.entries()) {
      const seen = this.#seen[partition]
      const { closedMinute, beat, lostAtMs, isForgotten } = replies[at]
      if (seen.lostAtMs !== null && seen.lostAtMs !== lostAtMs) lost.push(partition)
      seen.lostAtMs = lostAtMs
      seen.isForgotten = isForgotten
      seen.beat = Math.max(seen.beat, beat)
      // A fence may rightly go back (take.lua): then Redis has not forgotten.
      if (isForgotten) forgotten.add(partition)
      else seen.closedMinute = closedMinute
    }
    return { forgotten, lost }
  }
}
