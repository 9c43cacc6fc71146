// The runbooks: one section an alert, which tells what to do, and names only what there is.

import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { OVERLOAD_REASONS, type OverloadReason } from '../../src/contract/outcome.ts'
import { OVERLOAD_ADVICE } from '../../src/contract/overload-advice.ts'
import { SETTING_NAMES } from '../../src/settings/settings.ts'
import { rows } from '../support/dashboard.ts'
import { readRules } from '../support/rules.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const RUNBOOKS = 'docs/runbooks.md'
/** Of NATS, not of the environment. */
const OF_NATS = new Set(['SLUICE_EVENTS', 'SLUICE_APPS', 'SLUICE_COUNTS'])

const alerts = (await readRules()).groups.flatMap((group) => group.rules).filter(({ alert }) => alert !== undefined)

/** What clients do for each reason, which the page says once. */
const OF_ALL = /^clients keep their batches and send them again after 1 to 5 s[;,]? ?|; clients keep their batches .*$/

/** Words, and neither a command, nor a query, a setting or a path. */
function isLogged(quote: string): boolean {
  return (
    /^[\w ,:;…'-]+$/.test(quote) &&
    quote.includes(' ') &&
    !/^(kubectl|nats|npm|redis-cli|sluice|ulimit|appendfsync|SLOWLOG|INFO|ACL)/.test(quote)
  )
}

/** Template literals are cut where a value comes, as quotes are by an ellipsis. */
function sourceText(): string {
  const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  )
  return files.map((file) => readFileSync(join(ROOT, 'src', file), 'utf8')).join('\n')
}

test('has a section in the runbooks, and no section is without its alert', () => {
  const text = readFileSync(join(ROOT, RUNBOOKS), 'utf8')
  const sections = [...text.matchAll(/^## (\S+)$/gm)].map(([, heading]) => heading)
  expect(sections).toEqual([...new Set(alerts.map(({ alert }) => alert))])
})

test('has a runbook that quotes only what the service logs', () => {
  const blocks = /^ *```[^]*?```$/gm
  const text = readFileSync(join(ROOT, RUNBOOKS), 'utf8').replaceAll(blocks, '').replaceAll('\n', ' ')
  const quotes = [...text.matchAll(/`([^`]+)`/g)].map(([, quote]) => quote).filter(isLogged)
  expect(quotes.length).toBeGreaterThan(20)
  const source = sourceText()
  const pieces = quotes.flatMap((quote) => quote.split('…').map((piece) => piece.trim()))
  for (const piece of pieces) expect(source, piece).toContain(piece)
})

test('tells in its runbook what it means, where to look, what to do and when it is over', () => {
  const [, ...sections] = readFileSync(join(ROOT, RUNBOOKS), 'utf8').split(/^## /m)
  for (const section of sections) {
    for (const part of ['Means', 'Look', 'Causes', 'Do', 'Over', 'Do not']) {
      expect(section, section.split('\n')[0]).toMatch(
        new RegExp(`^\\*\\*${part}\\.\\*\\* \\S|^\\*\\*${part}\\.\\*\\*\\n`, 'm'),
      )
    }
  }
})

test('has a row for each reason of a 503, with what the service says of it', () => {
  const text = readFileSync(join(ROOT, RUNBOOKS), 'utf8')
  const rows = [...text.matchAll(/^\| `(\w+)` \| (.+) \|$/gm)].map(([, reason, cells]) => ({ reason, cells }))
  expect(rows.map(({ reason }) => reason)).toEqual(OVERLOAD_REASONS)
  for (const { reason, cells } of rows) {
    const { happened, clients, todo } = OVERLOAD_ADVICE[reason as OverloadReason]
    const [section, ...words] = cells.replace(' | | ', ' |  | ').split(' | ').toReversed()
    expect(words.toReversed()).toEqual([happened, clients.replace(OF_ALL, ''), todo])
    expect(section).toMatch(reason === 'stopping' ? /^none$/ : /^\[Sluice\w+\]\(#sluice\w+\)$/)
  }
})

test('an alert goes by each reason of a 503, but for that of a node which stops', () => {
  const expressions = alerts.map(({ expr }) => expr).join('\n')
  const named = [...expressions.matchAll(/sluice_overloaded_total\{job="sluice", reason=~?"([^"]+)"/g)]
  const reasons = new Set(named.flatMap(([, choice]) => choice.split('|')))
  expect([...reasons].toSorted()).toEqual(OVERLOAD_REASONS.filter((reason) => reason !== 'stopping').toSorted())
})

test('names rows that the dashboard has, and settings that the service has', () => {
  const text = readFileSync(join(ROOT, RUNBOOKS), 'utf8').replaceAll('\n', ' ')
  const titles = rows.map(({ title }) => title)
  const named = [...text.matchAll(/row "([^"]+)"/g)].map(([, title]) => title)
  expect(named.length).toBeGreaterThan(5)
  for (const title of named) expect(titles).toContain(title)
  const settings = [...text.matchAll(/SLUICE_[A-Z_]+/g)].map(([name]) => name).filter((name) => !OF_NATS.has(name))
  expect(settings.length).toBeGreaterThan(5)
  for (const name of settings) expect(SETTING_NAMES).toContain(name)
})

test('leads from one section to another that is there', () => {
  const text = readFileSync(join(ROOT, RUNBOOKS), 'utf8')
  const links = [...text.matchAll(/\]\(#([^)]+)\)/g)].map(([, anchor]) => anchor)
  expect(links.length).toBeGreaterThan(5)
  const anchors = ['why-503', ...alerts.map(({ alert }) => alert?.toLowerCase())]
  for (const anchor of links) expect(anchors).toContain(anchor)
})

test('has an alert, a runbook and a line of the log for each of thirteen faults', () => {
  const faults = readFileSync(join(ROOT, 'docs/faults.md'), 'utf8').split('## Thirteen faults')[1].split('\n## ')[0]
  const named = [...faults.matchAll(/^\| ([^|]+) \| (Sluice\w+) \| `([^`]+)` \|$/gm)]
  expect(named).toHaveLength(13)
  const source = sourceText()
  const runbooks = readFileSync(join(ROOT, RUNBOOKS), 'utf8')
  for (const [, fault, alert, words] of named) {
    expect(
      alerts.map((each) => each.alert),
      fault,
    ).toContain(alert)
    expect(runbooks, fault).toContain(`\n## ${alert}\n`)
    expect(source, fault).toContain(words)
  }
})
