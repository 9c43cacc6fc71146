// @ts-check
// Closes a run of k6: plain k6 prints a small table; for `npm run load` the whole goes into a file, since that is what has the
// last word (load/run/verify.js). Pure.

import { QUESTIONS } from './defaults.js'
import { durationOf } from './objectives.js'
import { count, milliseconds, outcomesTable, textTable } from './tables.js'
import { figure, isNodeOfOneMind, judge, judgedRules, outcomesOf } from './verdict.js'

/** @typedef {import('./tables.js').Table} Table */
/**
 * @typedef {object} Findings
 * @property {boolean} [mayDrop] the script itself judges iterations that were dropped
 * @property {readonly Table[]} [tables]
 * @property {readonly string[]} [notes] sentences: what was found, what was not asked
 * @property {Record<string, unknown>} [found] the script's own figures, for the JSON
 * @property {readonly string[]} [voids] why the run says nothing, beside what every run is held to
 * @property {readonly string[]} [unmet] what the run did not get to: it is void then, unless something failed
 * @property {readonly string[]} [failures] objectives that are no threshold, and did not hold
 */
/** @typedef {import('./settings.js').Settings} Settings */

/** In the report's folder until the run is closed. */
export const K6_FILE = 'k6.json'

/** What `handleSummary` returns. @param {Settings} settings @param {import('./verdict.js').RunData} data @param {Findings} findings @returns {Record<string, string>} */
export function summarise(settings, data, findings) {
  const report = reportOf(settings, data, findings)
  if (settings.out === '') return { stdout: textOf(report) }
  return { [`${settings.out}/${K6_FILE}`]: JSON.stringify({ ...report, k6: data }) }
}

/** What was found after k6, for the report. @typedef {{ ok: boolean, lines: readonly string[] }} Verified */
/** @typedef {ReturnType<typeof reportOf> & { verified?: Verified }} Report */

/** @param {Settings} settings @param {import('./verdict.js').RunData} data @param {Findings} findings */
function reportOf(settings, data, findings) {
  const { tables = [], notes = [], found = {} } = findings
  const { voids = [], failures = [], unmet = [] } = findings
  const nodeAgrees = isNodeOfOneMind(data, settings)
  const more = nodeAgrees === false ? ['the node counted other outcomes than were seen here'] : []
  return {
    script: settings.script,
    question: QUESTIONS[settings.script],
    ...judge(data, { mayDrop: findings.mayDrop === true, voids, unmet, failures: [...failures, ...more] }),
    endedAt: new Date().toISOString(),
    seconds: (data.state?.testRunDurationMs ?? 0) / 1000,
    settings: settings.shown(),
    objectives: judgedRules(data),
    latency: latencyOf(data),
    outcomes: outcomesOf(data),
    nodeAgrees,
    events: figure(data, 'events_accepted', 'count') || 0,
    dropped: figure(data, 'dropped_iterations', 'count') || 0,
    notes,
    tables,
    found,
  }
}

/** Of every request to the service, whatever its answer. @param {import('./verdict.js').RunData} data @returns {Record<string, number>} */
function latencyOf(data) {
  return data.metrics[durationOf()]?.values ?? {}
}

/** The verdict is its last line. @param {Report} report @param {string} [folder] where the whole report is */
export function textOf(report, folder = '') {
  const { verdict, script, question, objectives, latency, outcomes, tables, notes, reasons, events, seconds } = report
  const { verified } = report
  const lines = ['', `${script}: ${question}`, '']
  for (const { metric, rule, isHeld } of objectives) lines.push(`  ${isHeld ? 'held  ' : 'BROKEN'}  ${metric}  ${rule}`)
  const sent = outcomes.reduce((sum, outcome) => sum + outcome.sent, 0)
  lines.push('', `  ${count(sent)} requests, ${count(events)} events accepted, ${seconds.toFixed(1)} s`)
  const percentiles = ['med', 'p(90)', 'p(99)', 'p(99.9)', 'max'].map(
    (name) => `${name} ${milliseconds(latency[name])}`,
  )
  lines.push(`  latency ${percentiles.join(', ')}`)
  lines.push('', ...textTable(outcomesTable(report)))
  for (const table of tables) lines.push('', ...textTable(table))
  if (notes.length > 0) lines.push('', ...notes.map((note) => `  ${note}`))
  if (verified !== undefined && verified.lines.length > 0) lines.push('', ...verified.lines.map((line) => `  ${line}`))
  if (folder !== '') lines.push('', `  report  ${folder}`)
  lines.push('', `  ${verdict}${reasons.length > 0 ? `: ${reasons.join('; ')}` : ''}`, '')
  return lines.join('\n')
}
