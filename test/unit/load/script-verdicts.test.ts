// What each load script makes of the figures of a run: those of a good one, and then one that is not as it was to be. The
// modules of k6 are stood in for; k6 itself only compares a figure with a rule.

import { afterEach, expect, it, vi } from 'vitest'

// Any class does that takes a name.
vi.mock('k6', () => ({}))
vi.mock('k6/http', () => ({ default: { setResponseCallback: () => {}, expectedStatuses: () => null } }))
vi.mock('k6/metrics', () => ({ Counter: Set, Rate: Set, Gauge: Set, Trend: Set }))
vi.mock('k6/execution', () => ({ default: {} }))
vi.mock('k6/data', () => ({ SharedArray: Set }))

const PLACE = { BASE_URL: 'http://127.0.0.1:1', ADMIN_URL: 'http://127.0.0.1:2', APP_KEY: 'ak_x', LOCAL_NODE: '1' }
const OUT = '/reports'

type Values = Record<string, number>
interface Script {
  readonly options: { readonly thresholds: Record<string, string[]> }
  readonly handleSummary: (data: unknown) => Record<string, string>
}

afterEach(() => vi.unstubAllGlobals())

/** By the kind of the metric, which its rules tell: values by which all of them hold. */
function good(rules: readonly string[]): { type: string; values: Values } {
  const [, figure = '', sign, bound] = /^(\S+?)([<>=]+)(.+)$/.exec(rules.at(-1) ?? '') ?? []
  if (figure === 'count') return { type: 'counter', values: { count: Number(bound) + (sign === '>' ? 1 : 0) } }
  if (figure === 'rate') return { type: 'rate', values: { rate: 1, passes: 2, fails: 0 } }
  if (figure === 'value') return { type: 'gauge', values: { value: 1 } }
  return { type: 'trend', values: { count: 2, med: 1, 'p(99)': 1, max: 1 } }
}

function holds(rule: string, values: Values): boolean {
  const [, figure = '', sign = '', bound] = /^(\S+?)([<>=]+)(.+)$/.exec(rule) ?? []
  const [value, limit] = [values[figure], Number(bound)]
  if (value === limit) return sign.includes('=')
  return value < limit ? sign.startsWith('<') : sign.startsWith('>')
}

/** Closes a run of good figures, but for these. */
async function close(script: string, changes: Record<string, Values>) {
  vi.resetModules()
  vi.stubGlobal('__ENV', { ...PLACE, OUT, ...SETTINGS[script] })
  const { options, handleSummary }: Script = await import(`../../../load/k6/${script}.js`)
  const metrics: Record<string, unknown> = {}
  for (const name of new Set([...Object.keys(options.thresholds), ...Object.keys(changes)])) {
    const rules = options.thresholds[name] ?? []
    const { type, values: held } = good(rules)
    const values = { ...held, ...(name.startsWith('node_outcomes') ? { value: 0 } : {}), ...changes[name] }
    const thresholds = Object.fromEntries(rules.map((rule) => [rule, { ok: holds(rule, values) }]))
    metrics[name] = { type, values, thresholds }
  }
  const { verdict, reasons, notes } = JSON.parse(handleSummary({ metrics })[`${OUT}/k6.json`] ?? '')
  return { verdict, told: [...reasons, ...notes].join('\n') }
}

const SETTINGS: Readonly<Record<string, Record<string, string>>> = {
  ramp: { RATE: '10', STEPS: '2', GROWTH: '4' },
  soak: { DURATION: '30s', SAMPLE_EVERY: '10s' },
  limits: { WINDOWS: '0', EVENTS_PER_MINUTE: '300' },
}
const HALF = { rate: 0.5, passes: 1, fails: 1 }
/** k6 holds a rule to be held that nothing can break. */
const NONE = { passes: 0, fails: 0 }
const [TAKEN, REFUSED] = ['outcomes{code:accepted,phase:spike}', 'outcomes{code:service_overloaded,phase:after}']
const QUICK = 'http_req_duration{kind:event,phase:spike,status:503}'
const OVERLOADED = {
  'outcomes{code:accepted,phase:best}': { count: 1000 },
  'outcomes{code:service_overloaded,phase:spike}': { count: 20 },
  [TAKEN]: { count: 950 },
}
const [FIRST_DROPS, SECOND_DROPS] = [1, 2].map((step) => `dropped_iterations{scenario:step_0${step}}`)
const SLOW = {
  'http_req_duration{kind:event,phase:step_01}': { 'p(99)': 80 },
  'node_cores{phase:step_01}': { value: 0.1 },
}
const IDLE = { 'node_cores{phase:step_02}': { value: 0.1 } }

it.each<[script: string, verdict: string, reason: string, changes: Record<string, Values>]>([
  ['smoke', 'HELD', '', {}],
  ['smoke', 'FAILED', 'asked{code:trial_expired}', { 'asked{code:trial_expired}': { count: 0 } }],
  ['steady', 'HELD', '', {}],
  ['steady', 'VOID', '3 iterations were dropped', { dropped_iterations: { count: 3 } }],
  ['steady', 'VOID', 'nothing was sent', { 'http_reqs{kind:event}': { count: 0 } }],
  ['steady', 'FAILED', 'checks: rate==1', { checks: HALF }],
  ['steady', 'FAILED', 'available{phase:steady}', { 'available{phase:steady}': HALF }],
  ['steady', 'FAILED', 'p(99)<50', { 'http_req_duration{kind:event,phase:steady}': { 'p(99)': 50 } }],
  ['steady', 'VOID', 'available{phase:steady}: there was nothing to judge', { 'available{phase:steady}': NONE }],
  ['steady', 'HELD', '', { 'available{phase:warm_up}': NONE }],
  ['steady', 'FAILED', 'nothing to judge', { checks: HALF, 'available{phase:steady}': NONE }],
  ['steady', 'FAILED', 'the node counted other', { 'outcomes{code:accepted}': { count: 3 } }],
  ['ramp', 'HELD', 'it did not break: it held 40', {}],
  ['ramp', 'HELD', '10 requests/s held; the service broke at 40', { 'available{phase:step_02}': HALF }],
  ['ramp', 'HELD', 'at 40 k6 or the machine ran out', { [SECOND_DROPS]: { count: 5 }, ...IDLE }],
  ['ramp', 'VOID', 'at the first step', { [FIRST_DROPS]: { count: 1 }, dropped_iterations: { count: 1 } }],
  ['ramp', 'VOID', 'no step held; at 10 k6 or the machine ran out', SLOW],
  ['ramp', 'FAILED', 'available{phase:step_01}', { 'available{phase:step_01}': HALF }],
  ['spike', 'HELD', '95% of the best rate', OVERLOADED],
  ['spike', 'VOID', 'the spike met no 503', {}],
  ['spike', 'FAILED', 'less than 90% of the best rate', { ...OVERLOADED, [TAKEN]: { count: 890 } }],
  ['spike', 'FAILED', `${REFUSED}: count==0`, { ...OVERLOADED, [REFUSED]: { count: 1 } }],
  ['spike', 'FAILED', `${QUICK}: p(99)<50`, { ...OVERLOADED, [QUICK]: { 'p(99)': 60 } }],
  ['soak', 'HELD', '', {}],
  ['soak', 'FAILED', 'memory_flat', { memory_flat: HALF }],
  ['soak', 'VOID', 'a node was started again', { nodes_restarted: { count: 1 } }],
  ['soak', 'VOID', 'less than three times', { 'memory{part:at,sample:2}': { value: 0 } }],
  ['sweep', 'HELD', '', {}],
  ['sweep', 'FAILED', 'available{phase:events_005}', { 'available{phase:events_005}': HALF }],
  ['limits', 'HELD', '', {}],
  ['limits', 'FAILED', 'count<=300', { 'limits_window_events{window:1}': { count: 301 } }],
  ['limits', 'FAILED', 'count>=297', { 'limits_window_events{window:0}': { count: 296 } }],
  ['limits', 'FAILED', 'limits_obeyed', { limits_obeyed: HALF }],
  ['limits', 'VOID', 'sent again 0 times of 1', { limits_obeyed: NONE }],
])('%s: %s, %s', async (script, verdict, reason, changes) => {
  const found = await close(script, changes)
  expect(found.verdict, found.told).toBe(verdict)
  expect(found.told).toContain(reason)
})
