import { isIPv4 } from 'node:net'

/** Whether a host, in lower case, is this machine itself, by whatever name. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
}
