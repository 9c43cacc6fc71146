// @ts-check
// Zipf's law: of many apps a few send most of the traffic, and most send next to nothing.
// Plain JavaScript with no imports, so that Node and k6 both run it.

/**
 * The share of each rank, the largest first; together they are 1. Exponent 0 makes all equal.
 * @param {number} count @param {number} exponent @returns {number[]}
 */
export function zipfShares(count, exponent) {
  const weights = Array.from({ length: count }, (_, rank) => (rank + 1) ** -exponent)
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return weights.map((weight) => weight / total)
}

/**
 * Draws an index with the probability of its share.
 * @param {readonly number[]} shares @returns {(random: number) => number} takes a number from 0 up to 1
 */
export function createPicker(shares) {
  let sum = 0
  const ends = shares.map((share) => (sum += share))
  return (random) => {
    const wanted = random * sum
    let low = 0
    let high = ends.length - 1
    while (low < high) {
      const middle = (low + high) >>> 1
      if (ends[middle] > wanted) high = middle
      else low = middle + 1
    }
    return low
  }
}
