// Writes docs/settings.md from the table of settings: `npm run docs:settings`. A test holds the page to the table.

import { writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const HEAD = `# Settings

Environment variables, all checked at start. An unknown \`SLUICE_*\` name or a bad value ends the start, and every mistake is
named at once. An empty value counts as unset; numbers are whole. \`npm run docs:settings\` writes this page; \`sluice serve --help\` says the same.

| name | default | value | what it is |
|---|---|---|---|
`

/** The page for a table of settings. */
export function settingsPage(settings) {
  const rows = Object.entries(settings).map(([name, setting]) => {
    const rule = setting.mistake.replace(/^must be (one of )?/, '').replace(/^a whole number from /, '')
    // The help of a choice ends with its values, which have a column here.
    const about = rule === '' ? setting.about : setting.about.split(`: ${rule}`)[0]
    return `| \`${name}\` | ${setting.defaultText} | ${rule} | ${about} |\n`
  })
  return HEAD + rows.join('')
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { SETTINGS } = await import('../dist/settings/settings.js')
  writeFileSync(new URL('../docs/settings.md', import.meta.url), settingsPage(SETTINGS))
}
