import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { SETTING_NAMES, SETTINGS } from '../../src/settings/settings.ts'

const read = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')
const readme = read('README.md')
const rows = readme.split('\n').filter((line) => line.startsWith('| `'))

describe('the README', () => {
  it.each(SETTING_NAMES)('has a row for %s', (name) => {
    expect(rows.filter((row) => row.split('|')[1]?.includes(`\`${name}\``))).toHaveLength(1)
  })

  it.each(SETTING_NAMES.filter((name) => /^[\d.]+$/.test(SETTINGS[name].defaultText)))(
    'tells the default of %s',
    (name) => {
      const row = rows.find((line) => line.split('|')[1]?.includes(`\`${name}\``))
      expect(row?.split('|')[2]).toContain(SETTINGS[name].defaultText)
    },
  )

  it('names every setting somewhere', () => {
    expect(SETTING_NAMES.filter((name) => !readme.includes(`\`${name}\``))).toEqual([])
  })

  it.each([...read('package.json').matchAll(/^ {4}"([a-zA-Z.@/-]+)": "(?:npm:|\^|\d)/gm)].map((match) => match[1]))(
    'and package.json agree that %s is needed, where it is a dependency of the service',
    (name) => {
      const { dependencies, optionalDependencies } = JSON.parse(read('package.json')) as Record<string, object>
      if (name in { ...dependencies, ...optionalDependencies }) expect(readme).toContain(name)
    },
  )
})
