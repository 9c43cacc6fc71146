// @ts-check
// The kinds of panels, and where they stand. A panel's id is its own for good: links to a panel name it.

export const DATASOURCE = { type: 'prometheus', uid: '${datasource}' }

const COLUMNS = 24
const HEIGHT = 8

/**
 * What a panel asks: the query, and what its series are called.
 * @typedef {readonly [expr: string, legend: string]} Query
 *
 * @typedef {object} Look
 * @property {string} about how to read it
 * @property {string} unit as Grafana names units
 * @property {Query[]} queries
 * @property {number} [width] of 24 columns
 * @property {number} [height]
 * @property {number} [min]
 * @property {number} [max]
 * @property {number} [decimals]
 * @property {Step[]} [thresholds] from the lowest up; the first begins at minus infinity, whatever it says
 * @property {boolean} [stacked]
 * @property {boolean} [wholeRange] one answer for all the time that is shown
 * @property {Record<string, State>} [states] what values are called
 * @property {string} [empty] what it says where there is nothing to show, for panels of what some nodes do not have
 *
 * @typedef {readonly [from: number, color: string]} Step
 * @typedef {{ readonly text: string, readonly color: string }} State
 *
 * @typedef {ReturnType<typeof panel>} Panel
 * @typedef {{ readonly id: number, readonly title: string, readonly panels: readonly Panel[] }} Row
 */

/** @type {Step[]} */
const PLAIN = [[0, 'green']]

/**
 * @param {number} id
 * @param {string} type
 * @param {string} title
 * @param {Look} look
 * @param {{ custom?: object, color?: string, format?: string, options: object, rest?: object }} kind
 */
function panel(id, type, title, look, { custom = {}, color = 'palette-classic', format, options, rest = {} }) {
  const { about, unit, queries, wholeRange = false, thresholds = PLAIN, min, max, decimals, states, empty } = look
  return {
    id,
    type,
    title,
    description: about,
    datasource: DATASOURCE,
    gridPos: { x: 0, y: 0, w: look.width ?? 8, h: look.height ?? HEIGHT },
    targets: queries.map(([expr, legendFormat], index) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + index),
      datasource: DATASOURCE,
      editorMode: 'code',
      expr,
      legendFormat,
      format: format ?? 'time_series',
      instant: wholeRange,
      range: !wholeRange,
    })),
    fieldConfig: {
      defaults: {
        unit,
        ...(min === undefined ? {} : { min }),
        ...(max === undefined ? {} : { max }),
        ...(decimals === undefined ? {} : { decimals }),
        ...(empty === undefined ? {} : { noValue: empty }),
        color: { mode: color },
        thresholds: {
          mode: 'absolute',
          steps: thresholds.map(([from, stepColor], index) => ({ color: stepColor, value: index === 0 ? null : from })),
        },
        mappings: states === undefined ? [] : [{ type: 'value', options: states }],
        custom,
      },
      overrides: [],
    },
    options,
    ...rest,
  }
}

/**
 * Lines over time. Thresholds show as lines of their own where there are any.
 * @param {number} id
 * @param {string} title
 * @param {Look} look
 */
export function timeseries(id, title, look) {
  const custom = {
    drawStyle: 'line',
    lineInterpolation: 'linear',
    lineWidth: 1,
    fillOpacity: look.stacked ? 40 : 8,
    gradientMode: 'none',
    showPoints: 'never',
    spanNulls: false,
    axisPlacement: 'auto',
    scaleDistribution: { type: 'linear' },
    stacking: { mode: look.stacked ? 'normal' : 'none', group: 'A' },
    thresholdsStyle: { mode: look.thresholds === undefined ? 'off' : 'dashed' },
  }
  return panel(
    id,
    'timeseries',
    title,
    { min: 0, ...look },
    {
      custom,
      options: {
        legend: { showLegend: true, displayMode: 'table', placement: 'bottom', calcs: ['mean', 'max', 'lastNotNull'] },
        tooltip: { mode: 'multi', sort: 'desc' },
      },
    },
  )
}

/**
 * One number, or one for each query.
 * @param {number} id
 * @param {string} title
 * @param {Look} look
 */
export function stat(id, title, look) {
  return panel(
    id,
    'stat',
    title,
    { width: 3, height: 4, ...look },
    {
      color: 'thresholds',
      options: {
        reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
        graphMode: look.wholeRange ? 'none' : 'area',
        colorMode: 'value',
        justifyMode: 'auto',
        textMode: look.queries.length > 1 ? 'value_and_name' : 'value',
        orientation: 'auto',
        wideLayout: true,
        showPercentChange: false,
        percentChangeColorMode: 'standard',
      },
    },
  )
}

/**
 * Buckets of a histogram over time. `unit` is that of the buckets.
 * @param {number} id
 * @param {string} title
 * @param {Omit<Look, 'queries'> & { readonly query: string }} look
 */
export function heatMap(id, title, { query, ...look }) {
  return panel(
    id,
    'heatmap',
    title,
    { ...look, unit: 'short', queries: [[query, '{{le}}']] },
    {
      format: 'heatmap',
      custom: { scaleDistribution: { type: 'linear' } },
      options: {
        calculate: false,
        color: {
          mode: 'scheme',
          scheme: 'Oranges',
          fill: 'dark-orange',
          scale: 'exponential',
          exponent: 0.5,
          steps: 64,
          reverse: false,
        },
        // Empty buckets stay dark, so that a few slow requests are seen.
        filterValues: { le: 1e-9 },
        rowsFrame: { layout: 'auto' },
        showValue: 'never',
        cellGap: 1,
        cellValues: { unit: 'short', decimals: 0 },
        yAxis: { axisPlacement: 'left', reverse: false, unit: look.unit },
        legend: { show: true },
        tooltip: { mode: 'single', yHistogram: true, showColorScale: true },
        exemplars: { color: 'rgba(255,0,255,0.7)' },
      },
    },
  )
}

/**
 * States over time, a bar for each series.
 * @param {number} id
 * @param {string} title
 * @param {Look} look
 */
export function stateTimeline(id, title, look) {
  return panel(
    id,
    'state-timeline',
    title,
    { width: 12, ...look },
    {
      color: 'thresholds',
      custom: { lineWidth: 0, fillOpacity: 70, spanNulls: false },
      options: {
        showValue: 'auto',
        rowHeight: 0.9,
        mergeValues: true,
        alignValue: 'left',
        legend: { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] },
        tooltip: { mode: 'single', sort: 'none' },
      },
    },
  )
}

/**
 * A row for each series of one query as it is now, its labels as columns.
 * @param {number} id
 * @param {string} title
 * @param {Look} look
 * @param {Record<string, string>} columns labels and their titles, in this order
 */
export function table(id, title, look, columns) {
  const labels = Object.keys(columns)
  return panel(
    id,
    'table',
    title,
    { ...look, wholeRange: true },
    {
      color: 'thresholds',
      format: 'table',
      custom: { align: 'auto', inspect: false },
      options: { frameIndex: 0, showHeader: true, cellHeight: 'sm' },
      rest: {
        transformations: [
          { id: 'filterFieldsByName', options: { include: { names: labels } } },
          {
            id: 'organize',
            options: {
              excludeByName: {},
              indexByName: Object.fromEntries(labels.map((label, index) => [label, index])),
              renameByName: columns,
            },
          },
        ],
      },
    },
  )
}

/**
 * From left to right and top to bottom, each row under its title.
 * @param {readonly Row[]} rows
 */
export function layOut(rows) {
  const placed = []
  let y = 0
  for (const { id, title, panels } of rows) {
    placed.push({ id, type: 'row', title, collapsed: false, gridPos: { x: 0, y, w: COLUMNS, h: 1 }, panels: [] })
    y += 1
    let x = 0
    let lineHeight = 0
    for (const next of panels) {
      const { w, h } = next.gridPos
      if (x + w > COLUMNS) {
        y += lineHeight
        x = 0
        lineHeight = 0
      }
      placed.push({ ...next, gridPos: { x, y, w, h } })
      x += w
      lineHeight = Math.max(lineHeight, h)
    }
    y += lineHeight
  }
  return placed
}
