// What a mistyped name was probably meant to be.

/** A likely typo has up to 3 edits, and up to one for each 3 letters. */
const MAX_TYPO_EDITS = 3

/** The known name that is nearest to a mistyped one; undefined: none is near. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const maxEdits = Math.min(MAX_TYPO_EDITS, Math.floor(name.length / 3))
  return known
    .filter((each) => Math.abs(each.length - name.length) <= maxEdits)
    .map((each) => ({ each, edits: editsBetween(name, each) }))
    .filter(({ edits }) => edits <= maxEdits)
    .sort((left, right) => left.edits - right.edits)
    .at(0)?.each
}

/** The end of a message about an unknown name: `; did you mean tail?`, or nothing. */
export function didYouMean(name: string, known: readonly string[]): string {
  const near = nearest(name, known)
  return near === undefined ? '' : `; did you mean ${near}?`
}

/** Insertions, deletions and replacements of one letter, and swaps of two neighbours, between two names. */
function editsBetween(left: string, right: string): number {
  let beforePrevious: number[] = []
  let previous = Array.from({ length: right.length + 1 }, (_, at) => at)
  for (let row = 1; row <= left.length; row++) {
    const current = [row]
    for (let column = 1; column <= right.length; column++) {
      const replaced = previous[column - 1] + (left[row - 1] === right[column - 1] ? 0 : 1)
      const isSwap = column > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]
      const swapped = isSwap ? beforePrevious[column - 2] + 1 : replaced
      current.push(Math.min(replaced, swapped, previous[column] + 1, current[column - 1] + 1))
    }
    beforePrevious = previous
    previous = current
  }
  return previous[right.length]
}
