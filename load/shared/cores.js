// @ts-check
// Which processor cores there are to divide. Linux only.

import { readFileSync } from 'node:fs'

/** The processor cores this process may use: `0-3,8` in /proc. */
export function allowedCores() {
  const list = /^Cpus_allowed_list:\s+(.*)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'
  return list.split(',').flatMap((range) => {
    const [first, last = first] = range.split('-').map(Number)
    return Array.from({ length: last - first + 1 }, (_, index) => first + index)
  })
}
