// Versions: the package's own, and how others compare. package.json lies one folder above both src/ and dist/.

import { readFileSync } from 'node:fs'

export function packageVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return String((JSON.parse(text) as { version: unknown }).version)
}

/** `version` may have a suffix, such as 2.11.0-beta.1. A text that is not a version does not count as older. */
export function isOlderVersion(version: string, oldest: string): boolean {
  const parts = version.split('.').map((part) => Number.parseInt(part, 10))
  for (const [at, wanted] of oldest.split('.').map(Number).entries()) {
    const part = parts[at] ?? 0
    if (part !== wanted) return part < wanted
  }
  return false
}
