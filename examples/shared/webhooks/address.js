// Where a webhook may go: an address of the public internet, and nothing of this machine or its networks.

import { BlockList, isIP } from 'node:net'

/** IANA's registries of special addresses. */
const NOT_PUBLIC_4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
]
/** All that is public is in 2000::/3; in it, what leads elsewhere: protocol assignments and Teredo, examples, 6to4. */
const NOT_PUBLIC_6 = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
]

const blocked = new BlockList()
for (const [address, bits] of NOT_PUBLIC_4) blocked.addSubnet(String(address), Number(bits), 'ipv4')
for (const [address, bits] of NOT_PUBLIC_6) blocked.addSubnet(String(address), Number(bits), 'ipv6')
const global6 = new BlockList()
global6.addSubnet('2000::', 3, 'ipv6')

/** @param {string} address */
export function isPublic(address) {
  const version = isIP(address)
  if (version === 4) return !blocked.check(address, 'ipv4')
  // With a zone, an address belongs to one of our networks.
  if (version !== 6 || address.includes('%')) return false
  // An IPv4 address written as IPv6 is not in 2000::/3 either.
  return global6.check(address, 'ipv6') && !blocked.check(address, 'ipv6')
}

/**
 * The addresses of a host, each of them public; an error otherwise. Whoever connects has to use one of these, and not the
 * name, which may lead elsewhere when it is asked again.
 *
 * @param {string} hostname of a URL, which has made 127.0.0.1 of 2130706433, 0x7f.1 and 0177.0.0.1 already
 * @param {(hostname: string) => Promise<readonly string[]>} lookup
 * @param {boolean} allowsLocal
 */
export async function addressesOf(hostname, lookup, allowsLocal) {
  const literal = hostname.replace(/^\[(.*)\]$/, '$1')
  const addresses = isIP(literal) > 0 ? [literal] : await lookup(hostname)
  if (addresses.length === 0) throw new Error('its name has no address')
  // One that is ours among others is a name to be wary of.
  if (!allowsLocal && !addresses.every(isPublic)) throw new Error('its address is not one of the public internet')
  return addresses
}
