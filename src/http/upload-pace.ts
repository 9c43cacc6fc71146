// Decides which slow uploads may continue. The engine by itself would close any that sends less than about 16 KB/s.

/** On average, after the first seconds. The largest body may take nine minutes. */
const MIN_BYTES_PER_SECOND = 1024
const FIRST_SECONDS = 10
/** Each renewal is two system calls. */
const RENEWAL_INTERVAL_MS = 1000

/**
 * `startedAtMs`: monotonic time at which the head had arrived. To be asked when so many bytes of the body have arrived; true: the
 * engine's time limit should restart.
 */
export function uploadPace(startedAtMs: number): (lengthBytes: number, atMs: number) => boolean {
  let renewedAtMs = startedAtMs
  return (lengthBytes, atMs) => {
    if (atMs - renewedAtMs < RENEWAL_INTERVAL_MS) return false
    const seconds = (atMs - startedAtMs) / 1000
    if (lengthBytes < (seconds - FIRST_SECONDS) * MIN_BYTES_PER_SECOND) return false
    renewedAtMs = atMs
    return true
  }
}
