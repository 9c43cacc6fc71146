// The README and the pages that list settings and packages agree with the settings' table and package.json.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { SETTING_NAMES, SETTINGS, type SettingName } from '../../src/settings/settings.ts'
import { settingsPage } from '../../tools/settings-page.js'

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
  const { dependencies, optionalDependencies } = JSON.parse(read('package.json')) as Record<string, object>
  const needed = Object.keys({ ...dependencies, ...optionalDependencies })
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
