// @ts-check
// What the sections send, and how the tables call it.

export const SEED = 20_261_121

/** @param {import('./wrk.js').Case} kind */
export function nameOf({ events, keyed, varied, connections }) {
  const body = `${events} event${events > 1 ? 's' : ''}, ${varied ? 'varied' : 'uniform'}${keyed ? ', keyed' : ''}`
  return connections === undefined ? body : `${body}, ${connections} connection${connections > 1 ? 's' : ''}`
}
