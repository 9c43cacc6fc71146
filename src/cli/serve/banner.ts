// What a first start prints: the service's addresses, the demo key, and a request to try.

import { hostAndPort, hostToReach } from '../../lib/admin-address.ts'

export interface Address {
  readonly host: string
  readonly port: number
  readonly tls: boolean
}

/** A URL that works on this machine. */
export function urlOf({ host, port, tls }: Address): string {
  return `${tls ? 'https' : 'http'}://${hostAndPort(hostToReach(host), port)}`
}

/** One line for any POSIX shell, which fills in the current time, since a printed timestamp would soon be too old. */
export function curlLine(address: Address, appKey: string): string {
  const event = {
    type: 'track',
    name: 'hello',
    hashed_daily_id: 'demo-daily-0123456789',
    hashed_monthly_id: 'demo-monthly-0123456789',
    session_id: '0b9e3a52-6f0c-4d7e-9a55-2f8c1d3e4b6a',
    timestamp: 'NOW',
    context: { os: 'demo' },
  }
  const now = `'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'`
  const body = JSON.stringify({ app_key: appKey, events: [event] }).replace('NOW', now)
  // -k: curl rarely trusts the certificate of a demo.
  const flags = address.tls ? '-sSik' : '-sSi'
  return `curl ${flags} ${urlOf(address)}/api/v1/events -H 'Content-Type: application/json' -d '${body}'`
}

export function demoBanner(
  publicAddress: Address,
  { hasConsole, ...adminAddress }: Address & { readonly hasConsole: boolean },
  appKey: string,
): string {
  const pages = hasConsole ? 'console, metrics and health' : 'metrics and health'
  return [
    '',
    `sluice takes events at ${urlOf(publicAddress)}/api/v1/events; ${pages} are at ${urlOf(adminAddress)}`,
    `demo app key: ${appKey}`,
    'try it:',
    curlLine(publicAddress, appKey),
    '',
    '',
  ].join('\n')
}
