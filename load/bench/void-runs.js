// @ts-check
// Runs whose figures say nothing: they are measured again.

/** So many runs in a row may be void. */
const MAX_VOID_RUNS = 3

/** A run whose figures say nothing. */
export class VoidRun extends Error {}

/** Measures again where a run is void, and prints why: a service that refuses must show. @template T @param {string} name @param {() => Promise<T>} measure @returns {Promise<T>} */
export async function unlessVoid(name, measure) {
  for (let left = MAX_VOID_RUNS; ; left--) {
    try {
      return await measure()
    } catch (error) {
      if (!(error instanceof VoidRun) || left === 0) throw error
      console.error(`measured again (${name}): ${error.message}`)
    }
  }
}
