// @ts-check
// How long a client waits before it sends again: exponential backoff with jitter, and never sooner than it was told.
// Plain JavaScript with no imports, so that Node and k6 both run it.

const FIRST_SECONDS = 0.1
const MOST_SECONDS = 5

/**
 * Full jitter: anything from nothing up to a ceiling that doubles with each try, so that clients who failed together do
 * not come back together. What the service asked for comes on top, since the jitter must not cut it short.
 * @param {{ attempt: number, retryAfterSeconds: number, rng: () => number }} options `attempt`: 0 after the first try
 */
export function waitSeconds({ attempt, retryAfterSeconds, rng }) {
  const ceiling = Math.min(MOST_SECONDS, FIRST_SECONDS * 2 ** attempt)
  return Math.max(0, retryAfterSeconds) + rng() * ceiling
}

/** All waits between so many tries at their longest. @param {{ tries: number, retryAfterSeconds: number }} options */
export function mostWaitSeconds({ tries, retryAfterSeconds }) {
  let seconds = 0
  for (let attempt = 0; attempt < tries - 1; attempt++)
    seconds += waitSeconds({ attempt, retryAfterSeconds, rng: () => 1 })
  return seconds
}
