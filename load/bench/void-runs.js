// @ts-check
// Runs whose figures say nothing: they are measured again, and a row that stays void is named with its cause.

/** So many runs in a row may be void. */
const MAX_VOID_RUNS = 3

/** A run whose figures say nothing. */
export class VoidRun extends Error {}

/** A row that could not be measured. @typedef {{ name: string, cause: string }} Unmeasured */

/** Measures again where a run is void, and prints why: a service that refuses must show. @template T @param {string} name @param {() => Promise<T>} measure @returns {Promise<T>} */
export async function unlessVoid(name, measure) {
  for (let left = MAX_VOID_RUNS; ; left--) {
    try {
      return await measure()
    } catch (error) {
      if (!(error instanceof VoidRun)) throw error
      if (left === 0) throw new VoidRun(`${name}: ${error.message}`)
      console.error(`measured again (${name}): ${error.message}`)
    }
  }
}

/**
 * What is void is noted and left out, so that the rest of the run stands; null then.
 * @template T @param {{ unmeasured: Unmeasured[] }} options @param {string} name @param {() => Promise<T>} measure @returns {Promise<T | null>}
 */
export async function orUnmeasured({ unmeasured }, name, measure) {
  try {
    return await measure()
  } catch (error) {
    if (!(error instanceof VoidRun)) throw error
    unmeasured.push({ name, cause: error.message })
    return null
  }
}

/** The last words of a run. @param {readonly Unmeasured[]} unmeasured @param {readonly string[]} busy one line for each section that other programs disturbed */
export function lastWords(unmeasured, busy) {
  // A cause may name its row itself, and which side of it.
  const lines = unmeasured.map(({ name, cause }) => `  ${cause.startsWith(name) ? '' : `${name}: `}${cause}`)
  const what = `${unmeasured.length} row${unmeasured.length > 1 ? 's were' : ' was'} not measured, and the others stand:`
  const rows = lines.length === 0 ? ['Every row was measured.'] : [what, ...lines]
  return [...rows, ...(busy.length === 0 ? ['No other program disturbed the run.'] : [busy[0]])].join('\n')
}
