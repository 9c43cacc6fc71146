// @ts-check
// Wraps rules.yaml into the object in which the Prometheus operator takes rules: `node deploy/monitoring/prometheus-rule.js`
// writes prometheus-rule.yaml anew. rules.test.ts holds the two equal.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const HEAD = `# Made of rules.yaml by \`node deploy/monitoring/prometheus-rule.js\`: change that one.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: sluice
  labels:
    app.kubernetes.io/name: sluice
spec:
`

/**
 * The object's text, for the text of a rule file. Two more blanks before each line keep the comments, and the order.
 * @param {string} rules
 */
export function prometheusRule(rules) {
  const body = rules.slice(rules.indexOf('groups:\n'))
  return HEAD + body.replace(/^(?=.)/gm, '  ')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = fileURLToPath(new URL('.', import.meta.url))
  const rules = readFileSync(join(folder, 'rules.yaml'), 'utf8')
  writeFileSync(join(folder, 'prometheus-rule.yaml'), prometheusRule(rules))
}
