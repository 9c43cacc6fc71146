// Which tests run a second time, alone, after a run of many.

/** More files than these fail for a reason that is not the machine's. */
const MOST_FILES = 6

/**
 * @typedef {object} RunEnd what the reporter has written of a run
 * @property {number} ran files
 * @property {string[]} failed paths of files
 */

/**
 * @param {string[]} args those of the first run
 * @param {RunEnd | undefined} end undefined where it ended before its report
 * @returns {string[] | undefined} the arguments of the second run, or undefined where there is none
 */
export function secondRun(args, end) {
  if (end === undefined || end.failed.length === 0) return undefined
  if (end.failed.length > MOST_FILES || end.failed.length === end.ran) return undefined
  return [...args.filter((arg) => arg.startsWith('-')), ...end.failed]
}
