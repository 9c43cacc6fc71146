// The README and the pages that list settings and packages agree with the settings' table and package.json.

import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { SETTING_NAMES, SETTINGS, type SettingName } from '../../src/settings/settings.ts'
import { faultsPage } from '../../tools/faults-page.js'
import { settingsPage } from '../../tools/settings-page.js'
import { EFFECTS, OUTAGES } from '../cases/outages.js'
import { HISTORY_KINDS } from '../simulator/history.ts'
import { SCENARIOS } from '../simulator/scenarios.ts'

const read = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')

/** The cells of the table rows that begin with a name in code, below a heading. */
function rowsUnder(heading: string, page: string): string[][] {
  const [, section = ''] = page.split(`\n${heading}\n`)
  return section
    .split('\n## ')[0]
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
}

describe('the page of the settings', () => {
  const page = read('docs/settings.md')

  it('is what `npm run docs:settings` writes', () => {
    expect(page).toBe(settingsPage(SETTINGS))
  })

  it.each(SETTING_NAMES)('has one row for %s, with its default', (name) => {
    const rows = rowsUnder('# Settings', `\n${page}`).filter(([first]) => first === `\`${name}\``)
    expect(rows.map(([, fallback]) => fallback)).toEqual([SETTINGS[name].defaultText])
  })
})

describe('the page of the faults', () => {
  it('is what `npm run docs:faults` prints', () => {
    const page = read('docs/faults.md')
    expect(faultsPage(page)).toBe(page)
    expect(page).toContain(OUTAGES[0].answer)
    expect(page).toContain(EFFECTS[0].may)
  })

  it.each(OUTAGES)('names tests that there are: $part, $fault', ({ tests }) => {
    const simulated = [...HISTORY_KINDS, ...Object.keys(SCENARIOS)]
    for (const test of tests) {
      const [, scenario] = test.split('simulator: ')
      if (scenario !== undefined) expect(simulated).toContain(scenario)
      else {
        const path = `../../test/${test.includes('/') ? test : `integration/${test}`}`
        const names = ['', '.long'].map((length) => new URL(`${path}${length}.test.ts`, import.meta.url))
        expect(
          names.some((name) => existsSync(name)),
          test,
        ).toBe(true)
      }
    }
  })

  it('has of each outage one of the effects that it explains, none, or what is lost in words', () => {
    const known = new Set(['none', ...EFFECTS.map(({ name }) => name)])
    const others = OUTAGES.filter(({ effect }) => !effect.split(', ').every((name) => known.has(name)))
    for (const { effect } of others) expect(effect).toMatch(/^none: |\blost\b/)
  })
})

describe('the README', () => {
  const readme = read('README.md')
  const settings = rowsUnder('## Settings', readme)

  it('shows some settings, each once', () => {
    const shown = settings.flatMap(([names]) => names.match(/\w+/g) ?? [])
    expect(shown.length).toBeGreaterThan(5)
    expect(new Set(shown).size).toBe(shown.length)
    expect(shown.filter((name) => !(name in SETTINGS))).toEqual([])
  })

  it.each(settings)('has the default of %s', (names, fallback) => {
    const shown = (names.match(/\w+/g) ?? []) as SettingName[]
    expect(fallback).toBe([...new Set(shown.map((name) => SETTINGS[name].defaultText))].join(', '))
  })
})

describe('the table of the packages', () => {
  const { dependencies, peerDependencies } = JSON.parse(read('package.json')) as Record<string, object>
  const needed = Object.keys({ ...dependencies, ...peerDependencies })
  const named = rowsUnder('## The packages', read('docs/supply-chain.md')).flatMap(
    ([names]) => names.match(/[^`, ]+(?=`)/g) ?? [],
  )

  it.each(needed)('has %s, which the service needs', (name) => {
    expect(named.filter((shown) => shown === name)).toHaveLength(1)
  })

  it('has no other', () => {
    expect(named.filter((name) => !needed.includes(name))).toEqual([])
  })
})
