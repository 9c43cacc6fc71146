// What Grafana wants of a dashboard file, and what readers want of a panel. Whether the queries find anything is
// dashboard.test.ts's to say.

import { expect, test } from 'vitest'
import { formatDashboard } from '../../deploy/monitoring/format-dashboard.js'
import { SETTING_NAMES } from '../../src/settings/settings.ts'
import { dashboard, dashboardText, panels, rows } from '../support/dashboard.ts'

const COLUMNS = 24
/** Of those that Grafana knows: with another name it would write the name behind the number. */
const UNITS = ['none', 'short', 'reqps', 'eps', 'cps', 'ops', 'percentunit', 's', 'bytes', 'binBps']

test('the file is kept in its form', () => {
  const formatted = formatDashboard(JSON.parse(dashboardText))
  expect(dashboardText, 'run node deploy/monitoring/format-dashboard.js').toBe(formatted)
  expect(JSON.parse(formatted)).toEqual(dashboard)
})

test('panels have ids of their own, and stand within the columns, one at a place, each under its row', () => {
  expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length)
  const taken = new Map<string, number>()
  for (const { id, gridPos } of dashboard.panels) {
    const { x, y, w, h } = gridPos
    expect(x + w, `${id}`).toBeLessThanOrEqual(COLUMNS)
    for (let column = x; column < x + w; column++) {
      for (let line = y; line < y + h; line++) {
        expect(taken.get(`${column} ${line}`), `${id} stands where another does`).toBeUndefined()
        taken.set(`${column} ${line}`, id)
      }
    }
  }
  const rowOf = (y: number): number => rows.findLast(({ gridPos }) => gridPos.y < y)?.id ?? 0
  for (const { id, gridPos } of panels) expect(rowOf(gridPos.y), `row of ${id}`).toBe(Math.floor(id / 100) * 100)
})

test('nothing is bound to one data source or one set of nodes', () => {
  for (const { id, datasource, targets } of panels) {
    for (const target of targets) {
      expect([datasource.uid, target.datasource.uid]).toEqual(['${datasource}', '${datasource}'])
      const selectors = [...target.expr.matchAll(/\{(.*?)\}/g)].map(([, selector]) => selector)
      expect(selectors.length, `${id}`).toBeGreaterThan(0)
      const held = target.expr.includes('ALERTS{') ? 'job="$job"' : 'job="$job", instance=~"$instance"'
      for (const selector of selectors) expect(selector, `${id}`).toContain(held)
    }
  }
  expect(dashboard.templating.list.map(({ name }) => name)).toEqual(['datasource', 'job', 'instance'])
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
