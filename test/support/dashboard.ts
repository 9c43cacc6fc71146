// deploy/monitoring/dashboard.json, as far as the tests look into it.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'

interface Source {
  readonly uid: string
}

export interface Target {
  readonly refId: string
  readonly datasource: Source
  readonly expr: string
  readonly legendFormat: string
  readonly format: string
  readonly instant: boolean
}

interface Placed {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
}

interface Row extends Placed {
  readonly type: 'row'
  readonly collapsed: boolean
  /** Those of a row that is not collapsed stand behind it. */
  readonly panels: readonly Panel[]
}

export interface Panel extends Placed {
  readonly description: string
  readonly datasource: Source
  readonly targets: readonly Target[]
  readonly fieldConfig: {
    readonly defaults: {
      readonly unit: string
      readonly thresholds: { readonly steps: readonly { readonly value: number | null }[] }
    }
    readonly overrides: readonly { readonly properties: readonly { readonly id: string; readonly value: unknown }[] }[]
  }
  readonly options: { readonly yAxis?: { readonly unit?: string } }
}

interface Mark {
  readonly name: string
  readonly target?: Pick<Target, 'expr'>
  readonly titleFormat: string
  readonly useValueForTime: boolean
}

interface Dashboard {
  readonly panels: readonly (Row | Panel)[]
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly definition?: string; readonly query?: unknown }[]
  }
  readonly links: readonly { readonly url: string }[]
  readonly annotations: { readonly list: readonly Mark[] }
}

export const dashboardText = readFileSync(
  resolve(import.meta.dirname, '../../deploy/monitoring/dashboard.json'),
  'utf8',
)
export const dashboard = JSON.parse(dashboardText) as Dashboard
const isRow = (panel: Row | Panel): panel is Row => panel.type === 'row'
export const rows = dashboard.panels.filter(isRow)
/** In the order in which they are shown once every row is open. */
export const panels = dashboard.panels.flatMap((panel) => (isRow(panel) ? panel.panels : [panel]))
