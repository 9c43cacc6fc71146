// @ts-check
// Whether memory grows: a line through samples, and what it says over an hour. Pure.

/** @typedef {{ atMs: number, value: number }} Point */
/** @typedef {Point & { startedAt: number }} Sample `startedAt`: the process, in Unix seconds; NaN where it does not say */
/** @typedef {{ isFlat: boolean, percentPerHour: number, bytes: number }} Growth */

const ONE_HOUR_MS = 3_600_000
/** A process that has just started takes memory for a while: this much of a run is not judged. */
const WARM_UP_SHARE = 1 / 3
const MIN_SAMPLES = 2
/** From here on only the slope counts: in hours a small growth in all may be a leak. */
const LONG_RUN_MS = 1_800_000

/**
 * The straight line nearest to the samples (least squares): its slope a millisecond and its value at the first of them.
 * @param {readonly Point[]} samples @returns {{ slope: number, start: number }}
 */
function fitLine(samples) {
  if (samples.length < MIN_SAMPLES) return { slope: 0, start: samples[0]?.value ?? Number.NaN }
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

/** For a slope to mean much: a few MiB in some minutes are a steep one. @param {number} durationMs of a run */
export function isTooShort(durationMs) {
  return durationMs < LONG_RUN_MS
}

/** A process that was started again has given all its memory back, and says nothing of growth. @param {readonly Sample[]} samples of one node */
export function hasRestarted(samples) {
  return new Set(samples.map(({ startedAt }) => startedAt)).size > 1
}

/**
 * Flat is a small slope or, in a run too short for a slope to mean much, little growth in all.
 * @param {readonly Point[]} samples @param {{ percentPerHour: number, bytes: number, durationMs: number }} limits `durationMs` of the run @returns {Growth}
 */
export function judgeGrowth(samples, limits) {
  const judged = samples.slice(Math.floor(samples.length * WARM_UP_SHARE))
  if (judged.length < MIN_SAMPLES) return { isFlat: false, percentPerHour: Number.NaN, bytes: Number.NaN }
  const { slope, start } = fitLine(judged)
  const bytes = slope * (judged[judged.length - 1].atMs - judged[0].atMs)
  const percentPerHour = ((slope * ONE_HOUR_MS) / start) * 100
  const isLittle = isTooShort(limits.durationMs) && bytes <= limits.bytes
  return { isFlat: isLittle || percentPerHour <= limits.percentPerHour, percentPerHour, bytes }
}
