// @ts-check
// The processes themselves.

import { stat, table, timeseries } from './panels.js'
import { increase, of, rate } from './queries.js'

/** @type {import('./panels.js').Row} */
export const processes = {
  id: 700,
  title: 'Process health',
  panels: [
    timeseries(701, 'Resident memory', {
      about: 'It should level off soon after the start: the ring bounds what requests may take.',
      unit: 'bytes',
      queries: [[of('process_resident_memory_bytes'), '{{instance}}']],
    }),
    timeseries(702, 'Heap of the main thread', {
      about: 'Used and reserved; the used line of a sound process is a saw whose low points do not rise.',
      unit: 'bytes',
      queries: [
        [of('nodejs_heap_size_used_bytes'), '{{instance}} used'],
        [of('nodejs_heap_size_total_bytes'), '{{instance}} reserved'],
        [of('nodejs_external_memory_bytes'), '{{instance}} external'],
      ],
    }),
    timeseries(703, 'Time in garbage collection', {
      about: 'Share of the time that the main thread spends in collections of each kind; major ones hold requests up.',
      unit: 'percentunit',
      queries: [[`sum by (instance, kind) (${rate('nodejs_gc_duration_seconds_sum')})`, '{{instance}} {{kind}}']],
    }),
    timeseries(704, 'Uptime', {
      about: 'A line that falls to 0 is a restart.',
      unit: 's',
      queries: [[`time() - ${of('process_start_time_seconds')}`, '{{instance}}']],
    }),
    timeseries(707, 'Front ends', {
      about:
        'Front ends that serve on nodes with more than one of SLUICE_PROCESSES; fewer means that one is starting anew.',
      empty: 'Every node has a single front end.',
      unit: 'short',
      queries: [[of('sluice_front_ends'), '{{instance}}']],
    }),
    timeseries(708, 'Front ends that ended', {
      about: 'Front ends that were started anew because one ended by itself; the log of the node says why.',
      empty: 'Every node has a single front end.',
      unit: 'short',
      queries: [
        [`sum by (instance) (${increase('$__rate_interval', 'sluice_front_end_restarts_total')})`, '{{instance}}'],
      ],
    }),
    stat(705, 'Restarts', {
      about: 'Starts of a process under the same name in the time shown; a new pod has a new name and does not count.',
      unit: 'none',
      width: 4,
      height: 8,
      wholeRange: true,
      thresholds: [
        [0, 'green'],
        [1, 'orange'],
      ],
      queries: [[`sum(changes(${of('process_start_time_seconds')}[$__range]))`, 'restarts']],
    }),
    table(
      706,
      'What runs',
      {
        about: 'The version of each node; more than one version is a rollout that is under way, or stuck.',
        unit: 'none',
        width: 12,
        queries: [[of('sluice_build_info'), '']],
      },
      { instance: 'Node', version: 'sluice', node: 'Node.js' },
    ),
  ],
}
