// Asks DNS for the addresses of a name, for a bounded time. Not dns.lookup: it waits in one of four threads, which files
// and all other names need too, and cannot be broken off. So names in /etc/hosts are not known here.

import { Resolver } from 'node:dns/promises'

const LOOKUP_TIMEOUT_MS = 5000
const QUERY_TIMEOUT_MS = 1500
const TRIES = 3
const MAX_ADDRESSES = 32
/** Of these names, DNS says that there is no such name or no such address. */
const NO_ADDRESS = new Set(['ENODATA', 'ENOTFOUND'])

/**
 * None: the name has no address. An error: nobody knows, since DNS did not answer.
 *
 * @param {string} hostname
 * @param {AbortSignal} signal
 * @param {{ servers?: readonly string[], timeoutMs?: number }} [options]
 */
export async function lookUp(hostname, signal, { servers, timeoutMs = LOOKUP_TIMEOUT_MS } = {}) {
  // It is this machine, and is not asked for in DNS (RFC 6761).
  if (hostname === 'localhost' || hostname.endsWith('.localhost')) return ['127.0.0.1', '::1']
  signal.throwIfAborted()
  // One for each name, since all that one was asked is broken off together.
  const resolver = new Resolver({ timeout: QUERY_TIMEOUT_MS, tries: TRIES })
  if (servers !== undefined) resolver.setServers(servers)
  const cancel = () => resolver.cancel()
  const timer = setTimeout(cancel, timeoutMs)
  signal.addEventListener('abort', cancel, { once: true })
  try {
    const answers = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)])
    const addresses = answers.flatMap((each) => (each.status === 'fulfilled' ? each.value : []))
    const codes = answers.flatMap((each) => (each.status === 'rejected' ? [String(Object(each.reason).code)] : []))
    const code = codes.find((each) => !NO_ADDRESS.has(each))
    if (addresses.length === 0 && code !== undefined) throw new Error(`DNS did not answer for its name (${code})`)
    return addresses.slice(0, MAX_ADDRESSES)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', cancel)
  }
}
