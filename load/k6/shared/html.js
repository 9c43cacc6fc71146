// @ts-check
// The report as one page that needs nothing else: no script, no address, readable in light and in dark. Pure.

import { count, outcomesTable } from './tables.js'

const CHART = { width: 720, height: 240, left: 64, right: 16, top: 12, bottom: 40 }
const TICKS = 4
const STYLE = `
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; --line: #d5dae0; --good: #1a7f37; --bad: #b3261e; --first: #0a63c2; --second: #a4540a }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --soft: #a3abb5; --paper: #14171a; --line: #3a4149; --good: #57c777; --bad: #ff8a80; --first: #6cb2ff; --second: #ffb169 } }
body { margin: 0 auto; padding: 24px; max-width: 800px; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 22px; margin: 0 } h2 { font-size: 16px; margin: 28px 0 6px }
p { margin: 6px 0 } .soft, th { color: var(--soft) }
.verdict { font-weight: 700 } .HELD, .held { color: var(--good) } .FAILED, .VOID, .broken { color: var(--bad) }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } th, td { padding: 3px 16px 3px 0; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top }
th { font-weight: 500 } th:first-child, td:first-child { text-align: left } .wide { overflow-x: auto } .left td { text-align: left }
code { font: 13px ui-monospace, monospace } svg { width: 100%; height: auto } svg text { fill: var(--soft); font: 11px system-ui, sans-serif }
`
const COLOURS = ['var(--first)', 'var(--second)', 'var(--soft)', 'var(--good)']
const LATENCIES = ['count', 'min', 'avg', 'med', 'p(90)', 'p(99)', 'p(99.9)', 'max']
/** How a line begins that says what is wrong. */
export const WRONG = 'WRONG: '
const ESCAPES = /** @type {Readonly<Record<string, string>>} */ ({
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
})

/** @param {unknown} text */
export function escapeHtml(text) {
  return String(text).replace(/[&<>"']/g, (unit) => ESCAPES[unit])
}

/** @param {import('./summary.js').Report} report @returns {string} */
export function page(report) {
  const { script, question, verdict, reasons, endedAt, seconds, notes, objectives, tables, charts, settings } = report
  const list = (/** @type {readonly string[]} */ items) => items.map((item) => `<p>${escapeHtml(item)}</p>`).join('\n')
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(script)}: ${escapeHtml(verdict)}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${escapeHtml(script)}</h1>
<p>${escapeHtml(question)}</p>
<p class="verdict ${escapeHtml(verdict)}">${escapeHtml(verdict)}</p>
${list(reasons)}
<p class="soft">ended ${escapeHtml(endedAt)} after ${seconds.toFixed(1)} s</p>
${list(notes)}
${charts.map(chart).join('\n')}
${tables.map(table).join('\n')}
<h2>objectives</h2>
<table class="left">${objectives.map(({ metric, rule, isHeld }) => `<tr><td class="${isHeld ? 'held' : 'broken'}">${isHeld ? 'held' : 'BROKEN'}</td><td><code>${escapeHtml(metric)}</code></td><td><code>${escapeHtml(rule)}</code></td></tr>`).join('\n')}</table>
${besideTable(report.verified)}
${table(outcomesTable(report))}
${table(latencyTable(report))}
<h2>settings</h2>
<table class="left">${Object.entries(settings)
    .map(([name, value]) => `<tr><td>${escapeHtml(name)}</td><td><code>${escapeHtml(value)}</code></td></tr>`)
    .join('\n')}</table>
</body>
</html>
`
}

/** @param {import('./summary.js').Verified | undefined} verified */
function besideTable(verified) {
  if (verified === undefined || verified.lines.length === 0) return ''
  const rows = verified.lines.map((line) => {
    const kind = line.startsWith(WRONG) ? ' class="broken"' : ''
    return `<tr><td${kind}>${escapeHtml(line)}</td></tr>`
  })
  return `<h2>found beside k6</h2>
<div class="wide"><table class="left">${rows.join('\n')}</table></div>`
}

/** @param {import('./summary.js').Report} report @returns {import('./tables.js').Table} */
function latencyTable({ latency }) {
  const entries = LATENCIES.map((name) => /** @type {const} */ ([name, latency[name] ?? Number.NaN]))
  return {
    title: 'latency, milliseconds',
    columns: entries.map(([name]) => name),
    rows: [entries.map(([name, value]) => (Number.isNaN(value) ? '–' : value.toFixed(name === 'count' ? 0 : 2)))],
  }
}

/** @param {import('./tables.js').Table} table */
function table({ title, columns, rows }) {
  const cells = (/** @type {readonly string[]} */ row, /** @type {string} */ tag) =>
    `<tr>${row.map((cell) => `<${tag}>${escapeHtml(cell)}</${tag}>`).join('')}</tr>`
  return `<h2>${escapeHtml(title)}</h2>
<div class="wide"><table>${cells(columns, 'th')}
${rows.map((row) => cells(row, 'td')).join('\n')}</table></div>`
}

/** @param {import('./summary.js').Chart} chart */
function chart({ title, unit, across, series, limit }) {
  const points = series.flatMap((each) => each.points).filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y))
  if (points.length < 2) return ''
  const { width, height, left, right, top, bottom } = CHART
  const xs = points.map(({ x }) => x)
  const [least, most] = [Math.min(...xs), Math.max(...xs)]
  const ceiling = roundUp(Math.max(limit ?? 0, ...points.map(({ y }) => y)))
  const atX = (/** @type {number} */ x) => left + ((x - least) / (most - least || 1)) * (width - left - right)
  const atY = (/** @type {number} */ y) => height - bottom - (y / ceiling) * (height - top - bottom)
  const shapes = []
  for (let tick = 0; tick <= TICKS; tick++) {
    const [y, x] = [(ceiling * tick) / TICKS, least + ((most - least) * tick) / TICKS]
    shapes.push(`<line x1="${left}" x2="${width - right}" y1="${atY(y)}" y2="${atY(y)}" stroke="var(--line)"/>`)
    shapes.push(`<text x="${left - 6}" y="${atY(y) + 4}" text-anchor="end">${shortNumber(y)}</text>`)
    shapes.push(`<text x="${atX(x)}" y="${height - bottom + 16}" text-anchor="middle">${shortNumber(x)}</text>`)
  }
  shapes.push(
    `<text x="${(left + width - right) / 2}" y="${height - 6}" text-anchor="middle">${escapeHtml(across)}</text>`,
  )
  if (limit !== undefined) {
    shapes.push(
      `<line x1="${left}" x2="${width - right}" y1="${atY(limit)}" y2="${atY(limit)}" stroke="var(--bad)" stroke-dasharray="5 4"/>`,
    )
  }
  for (const [index, each] of series.entries()) {
    const colour = COLOURS[index % COLOURS.length]
    const drawn = each.points.filter(({ y }) => Number.isFinite(y))
    shapes.push(
      `<polyline fill="none" stroke="${colour}" stroke-width="2" points="${drawn.map(({ x, y }) => `${atX(x).toFixed(1)},${atY(y).toFixed(1)}`).join(' ')}"/>`,
    )
    for (const { x, y } of drawn)
      shapes.push(`<circle cx="${atX(x).toFixed(1)}" cy="${atY(y).toFixed(1)}" r="2.5" fill="${colour}"/>`)
  }
  const legend = series
    .map(({ name }, index) => `<span style="color:${COLOURS[index % COLOURS.length]}">● ${escapeHtml(name)}</span>`)
    .join(' &nbsp; ')
  return `<h2>${escapeHtml(title)}, ${escapeHtml(unit)}</h2>
<p class="soft">${legend}</p>
<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeHtml(title)}">${shapes.join('')}</svg>`
}

/** The next of 1, 2, 5 times a power of ten. @param {number} value */
function roundUp(value) {
  if (!(value > 0)) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value) ?? value
}

/** @param {number} value */
function shortNumber(value) {
  return value >= 1000 ? count(value) : String(Number(value.toPrecision(3)))
}
