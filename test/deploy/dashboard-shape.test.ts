// What Grafana wants of a dashboard file, and what readers want of a panel. Whether the queries find anything is
// dashboard.test.ts's to say.

import { expect, test } from 'vitest'
import { formatDashboard } from '../../deploy/monitoring/format-dashboard.js'
import { SETTING_NAMES } from '../../src/settings/settings.ts'
import { dashboard, dashboardText, type Panel, panels, rows } from '../support/dashboard.ts'
import { readRuleObject } from '../support/rules.ts'

const COLUMNS = 24
/** Of those that Grafana knows: with another name it would write the name behind the number. */
const UNITS = ['none', 'short', 'reqps', 'eps', 'cps', 'ops', 'percentunit', 's', 'bytes', 'binBps']

test('the file is kept in its form', () => {
  const formatted = formatDashboard(JSON.parse(dashboardText))
  expect(dashboardText, 'run node deploy/monitoring/format-dashboard.js').toBe(formatted)
  expect(JSON.parse(formatted)).toEqual(dashboard)
})

/** More are too many to look through while something is wrong. Rows count, too. */
const MOST_PANELS = 35

/** The lines that these fill, without a hole and without one above another. */
function filledLines(placed: readonly Pick<Panel, 'id' | 'gridPos'>[]): { from: number; to: number } {
  const taken = new Map<string, number>()
  for (const { id, gridPos } of placed) {
    const { x, y, w, h } = gridPos
    expect(x + w, `${id}`).toBeLessThanOrEqual(COLUMNS)
    for (let column = x; column < x + w; column++) {
      for (let line = y; line < y + h; line++) {
        expect(taken.get(`${column} ${line}`), `${id} stands where another does`).toBeUndefined()
        taken.set(`${column} ${line}`, id)
      }
    }
  }
  const from = Math.min(...placed.map(({ gridPos }) => gridPos.y))
  const to = Math.max(...placed.map(({ gridPos }) => gridPos.y + gridPos.h))
  expect(taken.size, `places taken from line ${from} to ${to}`).toBe((to - from) * COLUMNS)
  return { from, to }
}

test('panels have ids of their own, a hundred for each row', () => {
  const ids = [...rows, ...panels].map(({ id }) => id)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.length).toBeLessThanOrEqual(MOST_PANELS)
  for (const row of rows) for (const { id } of row.panels) expect(Math.floor(id / 100) * 100).toBe(row.id)
})

test('panels fill the columns, both what is open at first and each row that can be opened', () => {
  expect(filledLines(dashboard.panels).from).toBe(0)
  for (const { gridPos, panels: within } of rows.filter(({ collapsed }) => collapsed)) {
    expect(filledLines(within).from).toBe(gridPos.y + gridPos.h)
  }
})

test('what is open at first are alerts, objectives, parts and the stream', () => {
  const [first, ...others] = rows
  expect([first.collapsed, first.panels, dashboard.panels[0]]).toEqual([false, [], first])
  expect(others.map(({ collapsed, panels: within }) => [collapsed, within.length > 0])).toEqual(
    others.map(() => [true, true]),
  )
  const open = panels.filter((panel) => dashboard.panels.includes(panel)).map(({ title }) => title)
  expect(open).toEqual([
    'Alerts',
    'Error budget left, 30 d',
    'Latency budget left, 30 d',
    'Parts',
    'Burn rates over 1 h',
    'Stream',
  ])
})

test('an alert leads to its section of the runbooks, where the rules say that these are', async () => {
  const [alerts] = panels
  const links = alerts.fieldConfig.overrides.flatMap(({ properties }) => properties.filter(({ id }) => id === 'links'))
  expect(links.map(({ value }) => value)).toMatchObject([[{ url: '${runbooks:raw}#${__value.raw}' }]])
  expect(dashboard.links.map(({ url }) => url)).toEqual(['${runbooks:raw}'])
  const page = dashboard.templating.list.find(({ name }) => name === 'runbooks')?.query
  expect(page).toBe((await readRuleObject()).metadata.annotations.runbooks)
})

test('nothing is bound to one data source, one cell or one set of nodes', () => {
  for (const { id, datasource, targets } of panels) {
    for (const target of targets) {
      expect([datasource.uid, target.datasource.uid]).toEqual(['${datasource}', '${datasource}'])
      const selectors = [...target.expr.matchAll(/([\w:]+)\{(.*?)\}/g)]
      expect(selectors.length, `${id}`).toBeGreaterThan(0)
      for (const [, metric, selector] of selectors) {
        const ofCell = 'job="$job", cluster=~"$cluster", namespace=~"$namespace"'
        const isOfCell = metric === 'ALERTS' || metric.includes(':')
        expect(selector, `${id}`).toContain(isOfCell ? ofCell : `${ofCell}, instance=~"$instance"`)
        if (isOfCell) expect(selector, `${id}`).not.toContain('instance')
      }
    }
  }
  const names = dashboard.templating.list.map(({ name }) => name)
  expect(names).toEqual(['datasource', 'job', 'cluster', 'namespace', 'instance', 'runbooks'])
})

test('what goes back 30 days reads what the rules have recorded', () => {
  for (const { id, title, targets } of panels) {
    for (const { expr } of targets) {
      expect(expr, `${id}`).not.toMatch(/\[\d+d\]/)
      if (title.includes('30 d')) expect(expr, `${id}`).toMatch(/:ratio30d\{/)
    }
  }
})

test('every panel says how to read it, in units that Grafana knows, with steps that rise and lines that have names', () => {
  for (const { id, type, description, targets, fieldConfig, options } of panels) {
    expect(description, `${id}`).toMatch(/^[A-Z].{15,138}[.]$/)
    for (const [name] of description.matchAll(/SLUICE_[A-Z_]+/g)) expect(SETTING_NAMES).toContain(name)
    const { unit, thresholds } = fieldConfig.defaults
    expect(UNITS, `${id}`).toContain(type === 'heatmap' ? options.yAxis?.unit : unit)
    const [lowest, ...steps] = thresholds.steps.map(({ value }) => value)
    expect(lowest, `${id}`).toBeNull()
    expect(steps, `${id}`).toEqual([...new Set(steps)].toSorted((one, other) => Number(one) - Number(other)))
    const names = targets.map(({ legendFormat }) => legendFormat)
    if (type !== 'table') expect(names, `${id}`).not.toContain('')
    expect(new Set(names).size, `${id}`).toBe(targets.length)
    expect(new Set(targets.map(({ refId }) => refId)).size, `${id}`).toBe(targets.length)
  }
})
