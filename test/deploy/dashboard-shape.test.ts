// What Grafana wants of a dashboard file, and what readers want of a panel. Whether the queries find anything is
// dashboard.test.ts's to say.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { dashboard } from '../../deploy/monitoring/dashboard.js'
import { SETTING_NAMES } from '../../src/settings/settings.ts'

const FILE = resolve(import.meta.dirname, '../../deploy/monitoring/dashboard.json')
const COLUMNS = 24
/** Of those that Grafana knows: with another name it would write the name behind the number. */
const UNITS = ['none', 'short', 'reqps', 'eps', 'cps', 'ops', 'percentunit', 's', 'bytes', 'binBps']

const panels = dashboard.panels.flatMap((panel) => ('targets' in panel ? [panel] : []))
const rows = dashboard.panels.filter(({ type }) => type === 'row')

describe('the file', () => {
  test('dashboard.json is what dashboard.js makes', () => {
    const stored: unknown = JSON.parse(readFileSync(FILE, 'utf8'))
    expect(stored, 'run node deploy/monitoring/dashboard.js').toEqual(JSON.parse(JSON.stringify(dashboard)))
  })

  test('ids are given once', () => {
    const ids = dashboard.panels.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
  })

  test('panels stand within the columns, one at a place, each under its row', () => {
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
    const names = dashboard.templating.list.map(({ name }) => name)
    expect(names).toEqual(['datasource', 'job', 'instance'])
  })
})

describe('every panel', () => {
  test('says how to read it, in one sentence', () => {
    for (const { id, description } of panels) {
      expect(description, `${id}`).toMatch(/^[A-Z].{15,}[.]$/)
      expect(description.length, `${id}`).toBeLessThan(140)
      const settings = [...description.matchAll(/SLUICE_[A-Z_]+/g)].map(([name]) => name)
      for (const name of settings) expect(SETTING_NAMES).toContain(name)
    }
  })

  test('has a unit that Grafana knows, and steps that rise', () => {
    for (const { id, type, fieldConfig, options } of panels) {
      const { unit, thresholds } = fieldConfig.defaults
      const { yAxis } = options as { yAxis?: { unit?: string } }
      expect(UNITS, `${id}`).toContain(type === 'heatmap' ? yAxis?.unit : unit)
      const [lowest, ...steps] = thresholds.steps.map(({ value }) => value)
      expect(lowest, `${id}`).toBeNull()
      for (const [index, step] of steps.entries()) {
        expect(step ?? Number.NaN, `${id}`).toBeGreaterThan(steps[index - 1] ?? Number.NEGATIVE_INFINITY)
      }
    }
  })

  test('names its lines', () => {
    for (const { id, type, targets } of panels) {
      const names = targets.map(({ legendFormat }) => legendFormat)
      if (type !== 'table') expect(names, `${id}`).not.toContain('')
      expect(new Set(names).size, `${id}`).toBe(targets.length)
      expect(new Set(targets.map(({ refId }) => refId)).size, `${id}`).toBe(targets.length)
    }
  })
})
