// Ranges of IP addresses, and the address of a client behind proxies.

import { BlockList, isIP } from 'node:net'

/** One address, or a range such as `10.0.0.0/8`. */
export function isAddressRange(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/')
  const most = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1
  return rest.length === 0 && most > 0 && (prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= most))
}

export class AddressRanges {
  readonly #list = new BlockList()

  constructor(ranges: readonly string[]) {
    for (const range of ranges) {
      const [address, prefix] = range.split('/')
      const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
      if (prefix === undefined) this.#list.addAddress(address, family)
      else this.#list.addSubnet(address, Number(prefix), family)
    }
  }

  has(address: string): boolean {
    const family = isIP(address)
    return family !== 0 && this.#list.check(address, family === 6 ? 'ipv6' : 'ipv4')
  }
}

/** An IPv4 address as such, also where a socket of IPv6 shows it. */
export function plainAddress(address: string): string {
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address
}

/**
 * Of a client: the last address in X-Forwarded-For that is no trusted proxy's, where `remote` is one. What a client itself
 * wrote there stands before that.
 */
export function clientAddress(remote: string, forwarded: string | undefined, trusted: AddressRanges): string {
  let address = remote
  for (const hop of (forwarded ?? '').split(',').toReversed()) {
    const before = plainAddress(hop.trim())
    if (!trusted.has(address) || isIP(before) === 0) break
    address = before
  }
  return address
}

/** Of a network of IPv6 a client has all addresses of a /64. */
export function networkOf(address: string): string {
  if (isIP(address) !== 6) return address
  const [head = '', tail = ''] = address.split('%')[0].split('::')
  const first = head.split(':').filter((group) => group !== '')
  const last = tail.split(':').filter((group) => group !== '')
  const zeros = address.includes('::') ? Array.from({ length: 8 - first.length - last.length }, () => '0') : []
  return [...first, ...zeros, ...last].slice(0, 4).join(':')
}
