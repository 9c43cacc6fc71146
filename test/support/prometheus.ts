// A real Prometheus for tests, which scrapes what it is told to once a second and answers queries as Grafana asks them.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startProgram } from './programs.ts'
import type { RuleFile } from './rules.ts'
import { eventually } from './service.ts'

/** The label `cluster` of every series. */
export const CLUSTER = 'test'

export interface Sample {
  readonly metric: Readonly<Record<string, string>>
  /** One for each step at which the series is there. */
  readonly values: readonly number[]
}

interface Span {
  readonly fromMs: number
  readonly toMs: number
  readonly stepSeconds: number
}

export interface Prometheus {
  readonly port: number
  /** What a query says at a moment, by default now. Throws what Prometheus says of a query that is wrong. */
  query(expression: string, atMs?: number): Promise<Sample[]>
  /** The same at each step of a span. */
  queryRange(expression: string, span: Span): Promise<Sample[]>
  /** The values that a label has, on all series or on those that are selected. */
  labelValues(label: string, selector?: string): Promise<string[]>
  /** Returns once each target was scraped after now: what it counted until now is known. */
  scraped(): Promise<void>
  stop(): Promise<void>
}

export interface PrometheusOptions {
  readonly job: string
  /** Ports on this machine, whose path is /metrics, by the namespace that their series get. */
  readonly targets: Readonly<Record<string, readonly number[]>>
  /** Evaluated once a second where their groups do not say otherwise. */
  readonly rules?: RuleFile
}

interface Answered {
  readonly status: string
  readonly error?: string
  readonly data: unknown
}

interface Series {
  readonly metric: Readonly<Record<string, string>>
  readonly value?: readonly [number, string]
  readonly values?: readonly (readonly [number, string])[]
}

interface Target {
  readonly lastScrape: string
  readonly health: string
  readonly labels: { readonly instance: string }
}

/** Returns once every target was scraped. */
export async function startPrometheus({
  job,
  targets,
  rules = { groups: [] },
}: PrometheusOptions): Promise<Prometheus> {
  const cells = Object.entries(targets).map(([namespace, ports]) => ({
    targets: ports.map((port) => `127.0.0.1:${port}`),
    labels: { cluster: CLUSTER, namespace },
  }))
  const addresses = cells.flatMap((cell) => cell.targets)
  const configuration = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: ['rules.yml'],
    scrape_configs: [{ job_name: job, static_configs: cells }],
  }
  const program = await startProgram({
    name: 'prometheus',
    command: ({ port, folder }) => {
      const file = join(folder, 'prometheus.yml')
      // JSON is YAML too.
      writeFileSync(file, JSON.stringify(configuration))
      writeFileSync(join(folder, 'rules.yml'), JSON.stringify(rules))
      const storage = `--storage.tsdb.path=${join(folder, 'data')}`
      return ['prometheus', `--config.file=${file}`, storage, `--web.listen-address=127.0.0.1:${port}`]
    },
  })

  async function ask(path: string, parameters: Readonly<Record<string, string>>): Promise<unknown> {
    const response = await fetch(
      `http://127.0.0.1:${program.port}/api/v1/${path}?${new URLSearchParams(parameters).toString()}`,
    )
    const { status, error, data } = (await response.json()) as Answered
    if (status !== 'success') throw new Error(`${error}, asked for ${JSON.stringify(parameters)}`)
    return data
  }

  async function samples(path: string, parameters: Readonly<Record<string, string>>): Promise<Sample[]> {
    const { result } = (await ask(path, parameters)) as { result: readonly Series[] }
    return result.map(({ metric, value, values }) => ({
      metric,
      values: (values ?? (value === undefined ? [] : [value])).map(([, text]) => numberOf(text)),
    }))
  }

  const prometheus: Prometheus = {
    port: program.port,
    query: (query, atMs = Date.now()) => samples('query', { query, time: String(atMs / 1000) }),
    queryRange: (query, { fromMs, toMs, stepSeconds }) =>
      samples('query_range', {
        query,
        start: String(fromMs / 1000),
        end: String(toMs / 1000),
        step: String(stepSeconds),
      }),
    labelValues: async (label, selector) =>
      (await ask(`label/${label}/values`, selector === undefined ? {} : { 'match[]': selector })) as string[],
    scraped: async () => {
      const sinceMs = Date.now()
      await eventually('every target was scraped', async () => {
        const { activeTargets } = (await ask('targets', { state: 'active' })) as { activeTargets: readonly Target[] }
        // A target that is down was tried, and has nothing more to tell.
        const fresh = activeTargets.filter(
          ({ lastScrape, health }) => health !== 'unknown' && Date.parse(lastScrape) >= sinceMs,
        )
        return fresh.length === addresses.length
      })
    },
    stop: () => program.stop(),
  }
  try {
    // It listens before it has read what it stored, and until then has no answers.
    const readyUrl = `http://127.0.0.1:${program.port}/-/ready`
    await eventually('Prometheus is ready', async () => (await fetch(readyUrl)).ok)
    await eventually('every target is up', async () => {
      const up = await prometheus.query(`up{job="${job}"} == 1`)
      return up.length === addresses.length
    })
  } catch (error) {
    await prometheus.stop()
    throw error
  }
  return prometheus
}

/** Prometheus writes infinity in its own way. */
function numberOf(text: string): number {
  return text.endsWith('Inf') ? Number(`${text.replace('Inf', '')}Infinity`) : Number(text)
}
