// Ends a program on a Node that it does not run on, with one line: without it the first import of what that Node lacks ends it.

import { readFileSync } from 'node:fs'

/** @type {{ engines: { node: string } }} */
const { engines } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

export function refuseOldNode() {
  const [[oldestMajor, leastMinor], [nextMajor] = [oldestMajor + 1]] = engines.node.split(' || ').map(numbersOf)
  const [major, minor] = numbersOf(process.versions.node)
  // On a newer one without a binary of uWebSockets.js, Node's own server reads HTTP.
  if (major >= nextMajor || (major === oldestMajor && minor >= leastMinor)) return
  const what = major > oldestMajor ? 'is not supported' : 'is too old'
  process.stderr.write(
    `sluice: Node ${process.versions.node} ${what}: install Node 24 (it runs on ${engines.node}; README.md, "What it runs on")\n`,
  )
  process.exit(1)
}

/** The first two numbers of a version, or of a range, which begins with its least version. @param {string} text */
function numbersOf(text) {
  return (text.match(/\d+/g) ?? []).slice(0, 2).map(Number)
}
