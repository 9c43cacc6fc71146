// Closes a test run with one plain line of counts, and names every test that did not run and why it may matter. To test/run.js it
// says which files failed.

import { writeFileSync } from 'node:fs'
import type { Reporter, TestModule } from 'vitest/node'

export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    let passed = 0
    let failed = 0
    const skipped: string[] = []
    for (const module of modules) {
      if (module.errors().length > 0) failed++
      for (const test of module.children.allTests()) {
        const result = test.result()
        if (result.state === 'passed') passed++
        else if (result.state === 'failed') failed++
        else {
          const note = result.state === 'skipped' && result.note !== undefined ? ` (${result.note})` : ''
          skipped.push(`${module.relativeModuleId}: ${test.fullName}${note}`)
        }
      }
    }
    for (const name of skipped) console.log(`not run: ${name}`)
    console.log(`${passed} passed, ${failed} failed, ${skipped.length} skipped`)
    const report = process.env['SLUICE_TEST_REPORT']
    if (report === undefined) return
    const bad = modules.filter((module) => !module.ok()).map((module) => module.relativeModuleId)
    writeFileSync(report, JSON.stringify({ ran: modules.length, failed: [...new Set(bad)] }))
  }
}
