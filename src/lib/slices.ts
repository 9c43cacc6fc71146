// Goes through many in slices, with the event loop free between two of them.

import type { Timers } from './timers.ts'

export async function* slices<T>(
  all: Iterable<T>,
  size: number,
  timers: Pick<Timers, 'setImmediate'>,
): AsyncGenerator<readonly T[]> {
  let slice: T[] = []
  for (const one of all) {
    if (slice.length === size) {
      yield slice
      slice = []
      await new Promise<void>((resolve) => timers.setImmediate(resolve))
    }
    slice.push(one)
  }
  if (slice.length > 0) yield slice
}
