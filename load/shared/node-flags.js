// @ts-check
// The flags that `npm start` gives to Node, so that what is measured and tried is what is run.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** @param {string} tree the folder of a checkout @returns {string[]} */
export function nodeFlagsOf(tree) {
  return flagsIn(JSON.parse(readFileSync(join(tree, 'package.json'), 'utf8')).scripts.start)
}

/** What stands between `node` and the program. @param {string} command @returns {string[]} */
export function flagsIn(command) {
  const words = command.trim().split(/\s+/)
  const program = words.findIndex((word, index) => index > 0 && !word.startsWith('-'))
  if (words[0] !== 'node' || program < 0) throw new Error(`the start script does not run node: ${command}`)
  return words.slice(1, program)
}
