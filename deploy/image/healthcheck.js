// @ts-check
// The image's HEALTHCHECK: exit 0 where the admin port of this container's settings answers /livez with 200.

const TIMEOUT_MS = 4000
const { SLUICE_ADMIN_HOST, SLUICE_ADMIN_PORT } = process.env

// Empty counts as unset, as the service has it. Whoever listens on every address listens on loopback.
const host = SLUICE_ADMIN_HOST || '127.0.0.1'
const address = host === '0.0.0.0' || host === '::' ? 'localhost' : host.includes(':') ? `[${host}]` : host

try {
  const answer = await fetch(`http://${address}:${SLUICE_ADMIN_PORT || '9090'}/livez`, {
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  if (!answer.ok) fail(`/livez answered ${answer.status}`)
} catch (error) {
  // fetch says only that it failed; what failed is in the cause.
  const { message, cause } = /** @type {Error} */ (error)
  fail((cause instanceof Error && cause.message) || message)
}

/** @param {string} why */
function fail(why) {
  console.error(`not alive: ${why}`)
  process.exitCode = 1
}
