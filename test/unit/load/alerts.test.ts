// What `npm run alerts` makes happen, beside the rules and runbooks that it is about.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { lineOf, NAMES, WANTED } from '../../../load/alerts/wanted.js'

const [rules, times] = ['deploy/monitoring/prometheus-rule.yaml', 'docs/lab/0.3.0.md'].map((file) =>
  readFileSync(file, 'utf8'),
)

describe('each alert that is made to happen', () => {
  it.each(NAMES)('%s is a rule, and its time is in the lab', (name) => {
    expect(rules).toContain(`alert: ${name}\n`)
    expect(times).toMatch(new RegExp(`^\\| ${name} \\|.* \\d+ s`, 'm'))
  })

  it('has its line where the log warns of it, and none where it only tells', () => {
    const warned = '{"level":"warn","msg":"40 of 48 file descriptors are in use: without one left …"}'
    const told = warned.replace('warn', 'info')
    expect(lineOf('SluiceFilesNearlyUsed', `${told}\n${warned}\n`)).toBe(warned)
    expect(lineOf('SluiceFilesNearlyUsed', told)).toBeNull()
    const lost = '{"level":"warn","msg":"a 202 survives nothing for certain (n2 is offline)"}'
    expect(lineOf('SluiceStreamReplicasMissing', lost)).toBe(lost)
    expect(lineOf('SluiceStreamReplicasMissing', lost.replace('n2 is offline', 'one replica'))).toBeNull()
  })

  it('happens in a cell of its fault', () => {
    expect(new Set(NAMES.map((name) => WANTED[name].cell))).toEqual(new Set(['alone', 'files', 'lost', 'cluster']))
  })
})
