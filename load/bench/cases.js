// @ts-check
// What the sections send, and how the tables call it.

export const SEED = 20_261_121

/** The name of what makes its bodies. @param {Pick<import('./wrk.js').Case, 'varied' | 'mixed'>} kind */
export const makeOf = ({ varied, mixed }) => (mixed ? 'mixed' : varied ? 'varied' : 'uniform')

/** @param {import('./wrk.js').Case} kind */
export function nameOf({ events, keyed, connections, ...kind }) {
  const body = `${events} event${events > 1 ? 's' : ''}, ${makeOf(kind)}${keyed ? ', keyed' : ''}`
  return connections === undefined ? body : `${body}, ${connections} connection${connections > 1 ? 's' : ''}`
}
