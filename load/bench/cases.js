// @ts-check
// What the sections send, and how the tables call it.

import { number } from './report.js'

export const SEED = 20_261_121

/**
 * `mixed`: nine SDKs in place of uniform or varied bodies. `apps`: over how many the bodies are spread; one where it is left out.
 * `connections`: that wait for their answers, if not CONNECTIONS. `stores`: on Redis and JetStream. `engine`: as SLUICE_HTTP_ENGINE has it. `perSecond`: at a fixed rate.
 * @typedef {{ events: 1 | 10 | 100, keyed: boolean, varied: boolean, mixed?: boolean, apps?: number, connections?: number, stores?: boolean,
 *   replicas?: number, engine?: 'uws' | 'node', perSecond?: number }} Case
 */

/** Every combination of these; the first list varies least often. @param {{ [Name in keyof Case]?: readonly Case[Name][] }} lists @returns {Case[]} */
export function casesOf(lists) {
  /** @type {Case[]} */
  const one = [{ events: 1, keyed: false, varied: false }]
  return Object.entries(lists).reduce(
    (cases, [name, values]) => cases.flatMap((kind) => values.map((value) => ({ ...kind, [name]: value }))),
    one,
  )
}

export const BODIES = casesOf({ varied: [false, true], keyed: [false, true], events: [1, 10, 100] })
export const CASES = [...BODIES, ...casesOf({ varied: [false, true], connections: [1, 8, 64, 2000] })]

/** The name of what makes its bodies. @param {Pick<Case, 'varied' | 'mixed'>} kind */
export const makeOf = ({ varied, mixed }) => (mixed ? 'mixed' : varied ? 'varied' : 'uniform')

/** @param {number} count @param {string} word */
export const counted = (count, word) => `${count} ${word}${count === 1 ? '' : 's'}`

/** @param {Case} kind */
export function nameOf({ events, keyed, connections, apps, replicas, stores, engine, perSecond, ...kind }) {
  const parts = [
    counted(events, 'event'),
    makeOf(kind),
    keyed && 'keyed',
    connections !== undefined && counted(connections, 'connection'),
    apps !== undefined && counted(apps, 'app'),
    replicas !== undefined && counted(replicas, 'replica'),
    stores && 'JetStream and Redis',
    engine,
    perSecond !== undefined && `${number(perSecond)} /s`,
  ]
  return parts.filter(Boolean).join(', ')
}
