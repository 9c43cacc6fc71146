// @ts-check
// The Grafana dashboard in parts that can be read; dashboard.json beside it is what this makes. After a change:
// `node deploy/monitoring/dashboard.js`, then `npm run format`.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { dependencies } from './dashboard/dependencies.js'
import { latency } from './dashboard/latency.js'
import { limits } from './dashboard/limits.js'
import { overview } from './dashboard/overview.js'
import { DATASOURCE, layOut } from './dashboard/panels.js'
import { processes } from './dashboard/processes.js'
import { of } from './dashboard/queries.js'
import { saturation } from './dashboard/saturation.js'
import { traffic } from './dashboard/traffic.js'

/** Of Grafana 11; later ones bring it up to theirs when they load it. */
const SCHEMA_VERSION = 39

const variables = [
  { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', refresh: 1, hide: 0 },
  fromLabel('job', 'label_values(sluice_build_info, job)', { label: 'Job' }),
  fromLabel('instance', 'label_values(sluice_build_info{job="$job"}, instance)', {
    label: 'Node',
    multi: true,
    includeAll: true,
    allValue: '.*',
    current: { text: ['All'], value: ['$__all'] },
  }),
]

/**
 * @param {string} name
 * @param {string} query
 * @param {Record<string, unknown>} rest
 */
function fromLabel(name, query, rest) {
  const source = { type: 'query', datasource: DATASOURCE, definition: query, query: { query, refId: name } }
  // Refreshed with the time range, so that nodes which are gone from the range are gone from the list.
  return { name, ...source, refresh: 2, sort: 1, hide: 0, ...rest }
}

/** Marks over every panel. */
const annotations = [
  {
    name: 'Annotations & Alerts',
    builtIn: 1,
    type: 'dashboard',
    datasource: { type: 'grafana', uid: '-- Grafana --' },
    enable: true,
    hide: true,
    iconColor: 'rgba(0, 211, 255, 1)',
  },
  mark('Node starts', 'blue', `${of('process_start_time_seconds')} * 1000`, '{{instance}} started', true),
  mark('Node drains', 'purple', `${of('sluice_draining')} == 1`, '{{instance}} drains', false),
]

/**
 * @param {string} name
 * @param {string} iconColor
 * @param {string} expr
 * @param {string} titleFormat
 * @param {boolean} useValueForTime the sample's value is the moment to mark, whenever it was scraped
 */
function mark(name, iconColor, expr, titleFormat, useValueForTime) {
  const target = { expr, refId: 'Anno', interval: '' }
  const text = { titleFormat, tagKeys: 'instance' }
  return { name, enable: true, iconColor, datasource: DATASOURCE, target, ...text, useValueForTime }
}

export const dashboard = {
  uid: 'sluice',
  title: 'sluice',
  description: 'What the nodes of sluice do and how near their limits they are. What to do about it: docs/runbooks.md.',
  tags: ['sluice'],
  schemaVersion: SCHEMA_VERSION,
  version: 1,
  editable: true,
  graphTooltip: 1,
  timezone: 'browser',
  refresh: '30s',
  time: { from: 'now-1h', to: 'now' },
  timepicker: {},
  fiscalYearStartMonth: 0,
  links: [],
  templating: { list: variables },
  annotations: { list: annotations },
  panels: layOut([overview, traffic, latency, saturation, limits, dependencies, processes]),
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(join(import.meta.dirname, 'dashboard.json'), `${JSON.stringify(dashboard, null, 2)}\n`)
}
