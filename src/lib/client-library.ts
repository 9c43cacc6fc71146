// Members of client libraries that are no part of their interface and that this service replaces: another version may have others.

import { createRequire } from 'node:module'
import { StartError } from './errors.ts'

/** Throws where the installed version of `library` has not all these methods, by the object that has them. */
export function mustHaveMethods(
  library: string,
  methods: readonly (readonly [owner: object, ...names: string[]])[],
): void {
  const missing = methods.flatMap(([owner, ...names]) =>
    names.filter((name) => typeof Reflect.get(owner, name) !== 'function'),
  )
  if (missing.length === 0) return
  const load = createRequire(import.meta.url)
  const { version } = load(`${library}/package.json`) as { version: string }
  const { dependencies } = load('../../package.json') as { dependencies: Readonly<Record<string, string>> }
  throw new StartError(
    `${library} ${version} does not fit this version of sluice, which replaces its ${missing.join(' and ')}: install ${library} ${dependencies[library]}`,
  )
}
