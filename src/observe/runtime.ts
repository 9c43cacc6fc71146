// Node's own metrics under prom-client's usual names, without those that block the event loop during a scrape.

import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks'
import { collectDefaultMetrics, Registry } from 'prom-client'
import type { MetricsPage } from './page.ts'

/** How often the delay of the event loop is sampled. */
const LAG_RESOLUTION_MS = 10

/**
 * prom-client's event-loop metrics compute the standard deviation, which takes half a millisecond per page. Its count
 * of open files lists /proc/self/fd, which takes some milliseconds with 10,000 connections, and it reads their limit once.
 * The lag is measured below, and gauges.ts has the files. Gauges whose names end as a counter's are the sums of others.
 */
const REMOVED = /^(process_(open|max)_fds|nodejs_eventloop_lag_.*|nodejs_active_(handles|requests|resources)_total)$/

/** To be called once per process: the observers behind these metrics cannot be stopped. */
export function collectRuntimeMetrics(page: MetricsPage): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  for (const { name } of registry.getMetricsAsArray()) if (REMOVED.test(name)) registry.removeSingleMetric(name)

  const delay = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS })
  delay.enable()
  addEventLoopLag(page, delay)
  return registry
}

function addEventLoopLag(page: MetricsPage, delay: IntervalHistogram): void {
  const lag = (name: string, help: string, readNanoseconds: () => number) =>
    page.numbers(`nodejs_eventloop_lag_${name}_seconds`, 'gauge', `${help} of the event loop since the last scrape.`, [
      // A sample is the time between two ticks of a timer, which includes the timer's own interval.
      { labels: {}, read: () => Math.max(0, readNanoseconds() / 1e9 - LAG_RESOLUTION_MS / 1000) },
    ])
  // Without any sample `min` is a huge number and `max` is 0.
  lag('min', 'Smallest delay', () => Math.min(delay.min, delay.max))
  lag('p50', 'Median delay', () => delay.percentile(50))
  lag('p90', '90th percentile of the delay', () => delay.percentile(90))
  lag('p99', '99th percentile of the delay', () => delay.percentile(99))
  lag('max', 'Largest delay', () => {
    // The last of these gauges on the page: the next sample period begins here.
    const max = delay.max
    delay.reset()
    return max
  })
}
