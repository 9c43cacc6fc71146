// @ts-check
// Writes dashboard.json anew in the form it is kept in, after a change or an export from Grafana:
// `node deploy/monitoring/format-dashboard.js`. A query is a line and a panel a few, so that a change shows what it changes.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** @param {unknown} value */
const inLine = (value) => JSON.stringify(value, null, 1).replaceAll(/\n */g, ' ')

/**
 * What stands before an object's larger members shares a line.
 * @param {Record<string, unknown>} object
 * @param {string} indent
 */
function inLines(object, indent) {
  const lines = Object.entries(object).map(([name, value]) => {
    const isList = Array.isArray(value) && value.length > 0 && name !== 'tags'
    const text = isList
      ? `[\n${value.map((each) => `${indent}  ${inLine(each)}`).join(',\n')}\n${indent}]`
      : inLine(value)
    const isLarge = isList || ['description', 'fieldConfig', 'options'].includes(name)
    return { isLarge, text: `${JSON.stringify(name)}: ${text}` }
  })
  return lines.reduce((before, { isLarge, text }, at) => {
    const separator = at === 0 ? '' : isLarge || lines[at - 1].isLarge ? `,\n${indent}` : ', '
    return before + separator + text
  }, indent)
}

/**
 * Those that a collapsed row holds stand within it.
 * @param {Record<string, unknown>[]} panels
 * @param {string} indent
 * @returns {string}
 */
function panelTexts(panels, indent) {
  const texts = panels.map(({ panels: within = [], ...panel }) => {
    const held = /** @type {Record<string, unknown>[]} */ (within)
    const lines = inLines(panel, `${indent}  `)
    if (panel['type'] !== 'row') return `${indent}{\n${lines}\n${indent}}`
    const list = held.length === 0 ? '[]' : `[\n${panelTexts(held, `${indent}    `)}\n${indent}  ]`
    return `${indent}{\n${lines},\n${indent}  "panels": ${list}\n${indent}}`
  })
  return texts.join(',\n')
}

/** @param {Record<string, any>} dashboard */
export function formatDashboard({ panels, templating, annotations, ...rest }) {
  const list = (/** @type {{ list: object[] }} */ { list: each }) => `{\n${inLines({ list: each }, '    ')}\n  }`
  return `{
${inLines(rest, '  ')},
  "templating": ${list(templating)},
  "annotations": ${list(annotations)},
  "panels": [
${panelTexts(panels, '    ')}
  ]
}
`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const file = join(import.meta.dirname, 'dashboard.json')
  writeFileSync(file, formatDashboard(JSON.parse(readFileSync(file, 'utf8'))))
}
