// @ts-check
// Arithmetic over a run's figures: a line through samples. Pure.

/** @typedef {{ atMs: number, value: number }} Sample */

/**
 * The straight line nearest to the samples (least squares): its slope a millisecond and its value at the first of them.
 * @param {readonly Sample[]} samples @returns {{ slope: number, start: number }}
 */
export function fitLine(samples) {
  if (samples.length < 2) return { slope: 0, start: samples[0]?.value ?? Number.NaN }
  const meanAt = samples.reduce((sum, { atMs }) => sum + atMs, 0) / samples.length
  const meanValue = samples.reduce((sum, { value }) => sum + value, 0) / samples.length
  let [products, squares] = [0, 0]
  for (const { atMs, value } of samples) {
    products += (atMs - meanAt) * (value - meanValue)
    squares += (atMs - meanAt) ** 2
  }
  const slope = squares === 0 ? 0 : products / squares
  return { slope, start: meanValue + slope * (samples[0].atMs - meanAt) }
}
