// Where a node listens if it is to listen on every address, on a system that has no IPv6.

import { EVERY_ADDRESS, hasIpv6 } from '../http/port.ts'
import type { OnNotice } from '../lib/notice.ts'
import type { Config } from '../settings/config.ts'

/** IPv4 alone in the place of every address, which the log says, where the system has no IPv6. */
export async function withOwnAddresses(config: Config, onNotice: OnNotice, knowsIpv6 = hasIpv6): Promise<Config> {
  const { publicHost, adminHost, portal } = config
  if (![publicHost, adminHost, portal?.host].includes(EVERY_ADDRESS) || (await knowsIpv6())) return config
  onNotice('this system has no IPv6: listening on 0.0.0.0, so that clients reach this service over IPv4 alone', 'info')
  const ipv4Of = (host: string): string => (host === EVERY_ADDRESS ? '0.0.0.0' : host)
  return {
    ...config,
    publicHost: ipv4Of(publicHost),
    adminHost: ipv4Of(adminHost),
    portal: portal && { ...portal, host: ipv4Of(portal.host) },
  }
}
