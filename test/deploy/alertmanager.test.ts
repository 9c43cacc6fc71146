// The sample for Alertmanager: whom each alert of the rules reaches, and which alert holds back which. A real Alertmanager
// is asked the same where one is installed.

import { execFile, spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual, promisify } from 'node:util'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { startProgram } from '../support/programs.ts'
import { MONITORING, readRules } from '../support/rules.ts'
import { eventually } from '../support/service.ts'

type Labels = Readonly<Record<string, string>>

interface Route {
  readonly receiver: string
  readonly matchers?: readonly string[]
  readonly group_by?: readonly string[]
  readonly routes?: readonly Route[]
}

interface Sample {
  readonly route: Route
  readonly receivers: readonly { readonly name: string }[]
  readonly inhibit_rules: readonly {
    readonly source_matchers: readonly string[]
    readonly target_matchers: readonly string[]
    readonly equal: readonly string[]
  }[]
}

/** Debian gives it this name. */
const ALERTMANAGER = ['prometheus-alertmanager', 'alertmanager'].find(
  (name) => spawnSync(name, ['--version'], { stdio: 'ignore' }).error === undefined,
)
const FILE = join(MONITORING, 'alertmanager.yaml')
const run = promisify(execFile)

const sample = parse(await readFile(FILE, 'utf8')) as Sample
const alerts: readonly Labels[] = (await readRules()).groups
  .flatMap(({ rules }) => rules)
  .flatMap(({ alert, labels }) => (alert === undefined ? [] : [{ ...labels, alertname: alert }]))

/** As Alertmanager reads matchers: all must hold, and an expression is for the whole value. */
function areMet(matchers: readonly string[], labels: Labels): boolean {
  return matchers.every((matcher) => {
    const [, label, operator, quoted] = /^(\w+) (=~|=) (.+)$/.exec(matcher) ?? []
    const wanted = quoted.replaceAll('"', '')
    const value = labels[label] ?? ''
    return operator === '=' ? value === wanted : new RegExp(`^(?:${wanted})$`).test(value)
  })
}

function receiverOf(labels: Labels, { receiver, routes = [] }: Route = sample.route): string {
  const next = routes.find(({ matchers = [] }) => areMet(matchers, labels))
  return next === undefined ? receiver : receiverOf(labels, next)
}

function isHeldBack(labels: Labels, others: readonly Labels[]): boolean {
  return sample.inhibit_rules.some(({ source_matchers: source, target_matchers: target, equal }) => {
    const by = others.filter((other) => other !== labels && areMet(source, other) && !areMet(target, other))
    return areMet(target, labels) && by.some((other) => equal.every((label) => other[label] === labels[label]))
  })
}

const CELL = { cluster: 'east', namespace: 'sluice', job: 'sluice' }
const told = (alertname: string, severity: string, labels: Labels = {}): Labels => {
  expect(alerts).toContainEqual(expect.objectContaining({ alertname, severity }))
  return { ...CELL, ...labels, alertname, severity }
}

/** All fire at once; some are held back, and the others not. */
const FIRING: readonly { readonly alert: Labels; readonly heldBack: boolean }[] = [
  { alert: told('SluiceErrorBudgetBurn', 'critical', { long_window: '1h' }), heldBack: false },
  { alert: told('SluiceErrorBudgetBurn', 'warning', { long_window: '1d' }), heldBack: true },
  { alert: told('SluiceErrorBudgetBurn', 'warning', { long_window: '1d', namespace: 'other' }), heldBack: false },
  { alert: told('SluiceNatsAway', 'critical', { instance: 'a' }), heldBack: false },
  { alert: told('SluiceAuditLags', 'warning', { instance: 'a' }), heldBack: true },
  { alert: told('SluiceRingFilling', 'warning', { instance: 'a' }), heldBack: true },
  { alert: told('SluiceRingFilling', 'warning', { instance: 'b' }), heldBack: false },
  { alert: told('SluiceRedisAwayLong', 'critical', { instance: 'b' }), heldBack: false },
  { alert: told('SluiceRedisAway', 'warning', { instance: 'b' }), heldBack: true },
  { alert: told('SluiceRedisSlow', 'warning', { instance: 'b' }), heldBack: true },
  { alert: told('SluiceRedisSlow', 'warning', { instance: 'c' }), heldBack: false },
  { alert: told('SluiceStreamFullSoon', 'critical'), heldBack: false },
  { alert: told('SluiceStreamNearlyFull', 'warning'), heldBack: true },
  { alert: told('SluiceConsumerLosesSoon', 'critical', { consumer: 'billing' }), heldBack: false },
  { alert: told('SluiceConsumerBehind', 'warning', { consumer: 'billing' }), heldBack: true },
  { alert: told('SluiceConsumerBehind', 'warning', { consumer: 'search' }), heldBack: false },
  { alert: told('SluiceNoNodeServes', 'critical', { namespace: 'down' }), heldBack: false },
  { alert: told('SluiceMemoryHigh', 'warning', { namespace: 'down', instance: 'a' }), heldBack: true },
  { alert: told('SluiceClientsLeave', 'critical', { namespace: 'down' }), heldBack: false },
  {
    alert: told('SluiceMemoryHigh', 'warning', { cluster: 'west', namespace: 'down', instance: 'a' }),
    heldBack: false,
  },
]

test('critical alerts reach who is on call, warnings wait for the working day, and each cell is told of by itself', () => {
  for (const labels of alerts) {
    expect(receiverOf(labels), labels['alertname']).toBe(labels['severity'] === 'critical' ? 'on-call' : 'working-day')
  }
  expect(receiverOf({ alertname: 'Watchdog', severity: 'none' })).toBe('nobody')
  expect(sample.receivers.map(({ name }) => name)).toEqual(['nobody', 'on-call', 'working-day'])
  expect(sample.route.routes?.map(({ group_by: grouped }) => grouped)).toEqual([['cluster', 'namespace']])
})

test('no critical alert can be held back, and every matcher is met by an alert of the rules', () => {
  const critical = alerts.filter(({ severity }) => severity === 'critical')
  for (const { source_matchers: source, target_matchers: target, equal } of sample.inhibit_rules) {
    expect(critical.filter((labels) => areMet(target, labels))).toEqual([])
    for (const matchers of [source, target]) expect(alerts.some((labels) => areMet(matchers, labels))).toBe(true)
    expect(equal.slice(0, 3)).toEqual(['cluster', 'namespace', 'job'])
  }
  const names = JSON.stringify(sample.inhibit_rules).match(/Sluice\w+/g) ?? []
  for (const name of names) expect(alerts.map(({ alertname }) => alertname)).toContain(name)
})

test('an alert is held back by a worse one of its cell, node or consumer, and by no other', () => {
  const all = FIRING.map(({ alert }) => alert)
  for (const { alert, heldBack } of FIRING) expect(isHeldBack(alert, all), JSON.stringify(alert)).toBe(heldBack)
})

test('Alertmanager takes the sample and holds back the same', async (context) => {
  if (ALERTMANAGER === undefined) context.skip('Alertmanager is not installed: the sample was only read')
  await run('amtool', ['check-config', FILE])
  const alertmanager = await startProgram({
    name: 'alertmanager',
    command: ({ port, folder }) => [
      String(ALERTMANAGER),
      `--config.file=${FILE}`,
      `--storage.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--cluster.listen-address=',
    ],
  })
  try {
    const url = `http://127.0.0.1:${alertmanager.port}/api/v2/alerts`
    await eventually('it takes alerts', async () => {
      const body = JSON.stringify(FIRING.map(({ alert }) => ({ labels: alert })))
      return (await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })).ok
    })
    await eventually('it holds back what it should', async () => {
      const held = (await (await fetch(`${url}?inhibited=true`)).json()) as Held[]
      const isAsWanted = ({ alert, heldBack }: (typeof FIRING)[number]): boolean =>
        held.some(
          ({ labels, status }) => isDeepStrictEqual(labels, alert) && status.inhibitedBy.length > 0 === heldBack,
        )
      return held.length === FIRING.length && FIRING.every(isAsWanted)
    })
  } finally {
    await alertmanager.stop()
  }
})

interface Held {
  readonly labels: Labels
  readonly status: { readonly inhibitedBy: readonly string[] }
}
